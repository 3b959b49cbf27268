//! The scripts that run on the server, each a file in the folder `scripts`.

use redis::Script;

/// What runs on the server, one round trip each.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) create: Script,
    pub(super) set: Script,
    pub(super) grow: Script,
    pub(super) lease: Script,
    pub(super) give_back: Script,
    pub(super) confirm: Script,
    pub(super) workers: Script,
    pub(super) window: Script,
    pub(super) release_window: Script,
    pub(super) advance: Script,
    pub(super) sighting: Script,
    pub(super) lease_of: Script,
    pub(super) names: Script,
    pub(super) remove_name: Script,
    pub(super) names_without_ordinal: Script,
    pub(super) names_page: Script,
    pub(super) list_names: Script,
    pub(super) look: Script,
    pub(super) fill: Script,
    pub(super) claim: Script,
    pub(super) release: Script,
    pub(super) retire: Script,
    pub(super) find: Script,
    pub(super) digest: Script,
    pub(super) scan: Script,
    pub(super) tokens: Script,
    pub(super) replace_tokens: Script,
    pub(super) record_act: Script,
    pub(super) import_space: Script,
    pub(super) import_rows: Script,
    pub(super) import_holder: Script,
    pub(super) witness: Script,
    pub(super) beat: Script,
}

impl Scripts {
    pub(super) fn new() -> Scripts {
        let common = include_str!("scripts/common.lua");
        let on_space = |script: &str| Script::new(&format!("{common}\n{script}"));
        let pool = include_str!("scripts/pool.lua");
        let on_keys = |script: &str| on_space(&format!("{pool}\n{script}"));
        let reached = include_str!("scripts/reached.lua");
        let once_more = |script: &str| on_space(&format!("{reached}\n{script}"));
        Scripts {
            create: on_space(include_str!("scripts/create.lua")),
            set: on_space(include_str!("scripts/set.lua")),
            grow: on_space(include_str!("scripts/grow.lua")),
            lease: on_space(include_str!("scripts/lease.lua")),
            give_back: on_space(include_str!("scripts/give_back.lua")),
            confirm: once_more(include_str!("scripts/confirm.lua")),
            workers: on_space(include_str!("scripts/workers.lua")),
            window: on_space(include_str!("scripts/window.lua")),
            release_window: on_space(include_str!("scripts/release_window.lua")),
            advance: on_space(include_str!("scripts/advance.lua")),
            sighting: on_space(include_str!("scripts/sighting.lua")),
            lease_of: on_space(include_str!("scripts/lease_of.lua")),
            names: on_keys(include_str!("scripts/names.lua")),
            remove_name: on_space(include_str!("scripts/remove_name.lua")),
            names_without_ordinal: once_more(include_str!("scripts/names_without_ordinal.lua")),
            names_page: on_space(include_str!("scripts/names_page.lua")),
            list_names: on_space(include_str!("scripts/list_names.lua")),
            look: on_keys(include_str!("scripts/look.lua")),
            fill: on_keys(include_str!("scripts/fill.lua")),
            claim: on_keys(include_str!("scripts/claim.lua")),
            release: on_keys(include_str!("scripts/release.lua")),
            retire: on_keys(include_str!("scripts/retire.lua")),
            find: on_keys(include_str!("scripts/find.lua")),
            digest: on_keys(include_str!("scripts/digest.lua")),
            scan: on_space(include_str!("scripts/scan.lua")),
            tokens: on_space(include_str!("scripts/tokens.lua")),
            replace_tokens: on_space(include_str!("scripts/replace_tokens.lua")),
            record_act: on_space(include_str!("scripts/record_act.lua")),
            import_space: on_space(include_str!("scripts/import_space.lua")),
            import_rows: on_keys(include_str!("scripts/import_rows.lua")),
            import_holder: Script::new(include_str!("scripts/import_holder.lua")),
            witness: Script::new(include_str!("scripts/witness.lua")),
            beat: Script::new(include_str!("scripts/beat.lua")),
        }
    }
}
