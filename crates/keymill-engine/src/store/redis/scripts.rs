//! The scripts that run on the server, each a file beside this one.

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
    pub(super) unplaced: Script,
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
        let common = include_str!("common.lua");
        let on_space = |script: &str| Script::new(&format!("{common}\n{script}"));
        let pool = include_str!("pool.lua");
        let on_keys = |script: &str| on_space(&format!("{pool}\n{script}"));
        let reached = include_str!("reached.lua");
        let once_more = |script: &str| on_space(&format!("{reached}\n{script}"));
        Scripts {
            create: on_space(include_str!("create.lua")),
            set: on_space(include_str!("set.lua")),
            grow: on_space(include_str!("grow.lua")),
            lease: on_space(include_str!("lease.lua")),
            give_back: on_space(include_str!("give_back.lua")),
            confirm: once_more(include_str!("confirm.lua")),
            workers: on_space(include_str!("workers.lua")),
            window: on_space(include_str!("window.lua")),
            release_window: on_space(include_str!("release_window.lua")),
            advance: on_space(include_str!("advance.lua")),
            sighting: on_space(include_str!("sighting.lua")),
            lease_of: on_space(include_str!("lease_of.lua")),
            names: on_keys(include_str!("names.lua")),
            remove_name: on_space(include_str!("remove_name.lua")),
            unplaced: once_more(include_str!("unplaced.lua")),
            names_page: on_space(include_str!("names_page.lua")),
            list_names: on_space(include_str!("list_names.lua")),
            look: on_keys(include_str!("look.lua")),
            fill: on_keys(include_str!("fill.lua")),
            claim: on_keys(include_str!("claim.lua")),
            release: on_keys(include_str!("release.lua")),
            retire: on_keys(include_str!("retire.lua")),
            find: on_keys(include_str!("find.lua")),
            digest: on_keys(include_str!("digest.lua")),
            scan: on_space(include_str!("scan.lua")),
            tokens: on_space(include_str!("tokens.lua")),
            replace_tokens: on_space(include_str!("replace_tokens.lua")),
            record_act: on_space(include_str!("record_act.lua")),
            import_space: on_space(include_str!("import_space.lua")),
            import_rows: on_keys(include_str!("import_rows.lua")),
            import_holder: Script::new(include_str!("import_holder.lua")),
            witness: Script::new(include_str!("witness.lua")),
            beat: Script::new(include_str!("beat.lua")),
        }
    }
}
