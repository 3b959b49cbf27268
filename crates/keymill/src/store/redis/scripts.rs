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
    pub(super) workers: Script,
    pub(super) window: Script,
    pub(super) release_window: Script,
    pub(super) advance: Script,
    pub(super) lease_of: Script,
    pub(super) names: Script,
    pub(super) remove_name: Script,
    pub(super) look: Script,
    pub(super) fill: Script,
    pub(super) claim: Script,
    pub(super) release: Script,
    pub(super) retire: Script,
    pub(super) find: Script,
    pub(super) digest: Script,
    pub(super) witness: Script,
    pub(super) beat: Script,
}

impl Scripts {
    pub(super) fn new() -> Scripts {
        let common = include_str!("common.lua");
        let on_space = |script: &str| Script::new(&format!("{common}\n{script}"));
        let pool = include_str!("pool.lua");
        let on_keys = |script: &str| on_space(&format!("{pool}\n{script}"));
        Scripts {
            create: on_space(include_str!("create.lua")),
            set: on_space(include_str!("set.lua")),
            grow: on_space(include_str!("grow.lua")),
            lease: on_space(include_str!("lease.lua")),
            give_back: on_space(include_str!("give_back.lua")),
            workers: on_space(include_str!("workers.lua")),
            window: on_space(include_str!("window.lua")),
            release_window: on_space(include_str!("release_window.lua")),
            advance: on_space(include_str!("advance.lua")),
            lease_of: on_space(include_str!("lease_of.lua")),
            names: on_keys(include_str!("names.lua")),
            remove_name: on_space(include_str!("remove_name.lua")),
            look: on_keys(include_str!("look.lua")),
            fill: on_keys(include_str!("fill.lua")),
            claim: on_keys(include_str!("claim.lua")),
            release: on_keys(include_str!("release.lua")),
            retire: on_keys(include_str!("retire.lua")),
            find: on_keys(include_str!("find.lua")),
            digest: on_keys(include_str!("digest.lua")),
            witness: Script::new(include_str!("witness.lua")),
            beat: Script::new(include_str!("beat.lua")),
        }
    }
}
