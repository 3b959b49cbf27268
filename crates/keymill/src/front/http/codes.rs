//! Every error code with what happened and what to do about it: the table of `/docs`.
//!
//! `docs` renders it into the page. `problem` makes the errors themselves; a code that it gives and that is missing
//! here fails a test. It is not used while a request is answered.

/// One code, as readers look it up. In both texts, backticks set code.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) code: &'static str,
    pub(super) status: u16,
    /// What happened.
    pub(super) meaning: &'static str,
    /// What the caller, or the operator of the server, can do about it.
    pub(super) remedy: &'static str,
}

/// All codes, those of any request first, then by what they concern.
pub(super) const CODES: &[Entry] = &[
    entry("not_found", 404, "There is no such path.", "Check the path against `/docs`."),
    entry(
        "method_not_allowed",
        405,
        "The path exists, but not with this method.",
        "Use a method that the `Allow` header names.",
    ),
    entry(
        "bad_encoding",
        400,
        "The URL has a `%` without two hexadecimal digits after it, or is not UTF-8 once decoded.",
        "Percent-encode each name and value before it becomes part of the URL.",
    ),
    entry(
        "bad_path",
        400,
        "A part of the path cannot be read.",
        "Percent-encode keyspace, key and alias, each on its own.",
    ),
    entry(
        "bad_parameter",
        400,
        "A query parameter has a value that it cannot have.",
        "Correct the parameter that `detail` names.",
    ),
    entry(
        "unknown_parameter",
        400,
        "The operation has no such query parameter.",
        "Check the spelling; `detail` lists the valid parameters.",
    ),
    entry("repeated_parameter", 400, "A query parameter is given more than once.", "Send it once."),
    entry(
        "unconfirmed",
        400,
        "The operation cannot be undone, and `confirm` is missing or is not the name of the keyspace.",
        "If you are sure, repeat the request with the name of the keyspace as `confirm`.",
    ),
    entry(
        "bad_body",
        400,
        "The body is not the JSON that the operation expects, or ended early; or the operation takes no body.",
        "Do what `detail` says: correct the field that it names, send a JSON object, or leave the body out.",
    ),
    entry(
        "unsupported_media_type",
        415,
        "The body is not labelled as what the operation takes: JSON, or plain text for an import.",
        "Send the header that `detail` names, such as `Content-Type: application/json` or `text/plain`.",
    ),
    entry(
        "bad_host",
        400,
        "The request has no `Host` header, more than one, or one that differs from the host in its URL.",
        "Send it once, with the name or address of the server.",
    ),
    entry(
        "prefetch",
        403,
        "A browser asked for a key before anybody wanted it (`Sec-Purpose` or `Purpose`). Nothing was taken.",
        "Nothing: the browser asks again when the page is opened.",
    ),
    entry(
        "bad_owner",
        400,
        "`owner` is too long or has control characters.",
        "Send a short name or an ID.",
    ),
    entry(
        "body_too_large",
        413,
        "The body is longer than the server accepts.",
        "Send less at a time. Imports read a body of any length.",
    ),
    entry(
        "body_too_slow",
        408,
        "The body did not arrive in time.",
        "Send it again over a faster connection, or in smaller parts.",
    ),
    entry(
        "deadline_exceeded",
        408,
        "Only over gRPC: the deadline of the call has passed.",
        "Try again, with a later deadline if this happens often.",
    ),
    entry(
        "stopping",
        503,
        "Only over gRPC: a stream has ended, because its instance stops.",
        "Begin a new stream with another instance.",
    ),
    entry(
        "unknown_service",
        404,
        "Only over gRPC: the health of a service was asked for that the server does not have.",
        "Ask for `keymill.v1.Keymill`, or for the server as a whole with an empty name.",
    ),
    entry(
        "bad_count",
        400,
        "`count` is not a whole number, or is out of range.",
        "Ask for as many keys as `detail` allows, several times if need be.",
    ),
    entry(
        "bad_caller",
        400,
        "`caller` is too long or has control characters.",
        "Send a short name, such as the name of your service.",
    ),
    entry(
        "unsafe_numbers",
        400,
        "The keys of this keyspace cannot be JSON numbers: programs would round them.",
        "Leave `numbers` out and read the keys as strings.",
    ),
    entry(
        "unknown_space",
        404,
        "There is no keyspace of this name.",
        "Check the spelling with `GET /v1/spaces`, or create it with `PUT /v1/spaces/{space}`.",
    ),
    entry(
        "bad_definition",
        400,
        "The settings of the keyspace contradict each other or are out of range.",
        "Correct the setting that `detail` names.",
    ),
    entry(
        "different_definition",
        409,
        "The keyspace already exists with different settings, and these are permanent.",
        "Use the existing settings, which `differences` lists, or choose another name.",
    ),
    entry(
        "not_existing",
        403,
        "The server was started with `--require-existing` and creates nothing.",
        "Create the keyspace with `keymill space create`, or start the server without that option.",
    ),
    entry(
        "other_store",
        409,
        "The server's data directory belongs to another store, so nothing is created in this one.",
        "The operator must check the server's store URL and its data directory.",
    ),
    entry(
        "wrong_secret",
        409,
        "The server's secret is not the one that the keyspace was created with.",
        "The operator must set `KEYMILL_SECRET` or `secret_file` to the original secret.",
    ),
    entry(
        "secret_missing",
        409,
        "The keyspace was created with a secret that the server does not have.",
        "The operator must set `KEYMILL_SECRET` or `secret_file` to that secret.",
    ),
    entry(
        "wrong_kind",
        409,
        "The keyspace, or its store, does not support this operation.",
        "Use a keyspace of the kind that `detail` names.",
    ),
    entry(
        "sealed",
        409,
        "The keyspace is sealed: it hands out no more keys.",
        "Take keys from another keyspace. A seal is permanent, except during an import.",
    ),
    entry(
        "exhausted",
        409,
        "The keyspace, or its pool, has no keys left.",
        "Extend it with `keymill space grow`; fill a pool with `keymill pool fill`. `held_elsewhere` says how \
         many keys other instances still hold.",
    ),
    entry(
        "bad_alias",
        400,
        "The alias is too long, reserved, blocked, or has characters that are not allowed.",
        "Choose another alias.",
    ),
    entry(
        "taken",
        409,
        "The alias belongs to someone else, or may already have been handed out as a key.",
        "Choose another alias. If it is yours, name its `owner`.",
    ),
    entry(
        "unknown_alias",
        404,
        "The keyspace has no such alias.",
        "Check the spelling with `GET /v1/spaces/{space}/aliases`.",
    ),
    entry(
        "bad_input",
        400,
        "The input of a digest is empty, too long, or not a URL where one is expected.",
        "Correct the input as `detail` says.",
    ),
    entry(
        "not_retirable",
        409,
        "The key was never handed out, so it cannot be retired.",
        "Check the key with `GET /v1/spaces/{space}/keys/{key}`.",
    ),
    entry(
        "bad_import",
        400,
        "The data cannot be imported here.",
        "Correct what `detail` names and import again; nothing is imported twice.",
    ),
    entry(
        "too_many_connections",
        503,
        "All connections of the instance are in use, or your address has too many open.",
        "Close connections that you do not need, and try again after `Retry-After` seconds. The operator can \
         raise `limits.connections_max` or `limits.connections_per_address_max`.",
    ),
    entry(
        "too_many_large_answers",
        503,
        "Too many large answers are being sent, and the memory for them is limited.",
        "Try again after `Retry-After` seconds, or ask for less at a time. The operator can raise \
         `limits.unsent_max_bytes`.",
    ),
    entry(
        "too_many_large_bodies",
        503,
        "Too many large requests are being read, and the memory for them is limited.",
        "Try again after `Retry-After` seconds, or send less at a time. The operator can raise \
         `limits.unsent_max_bytes`.",
    ),
    entry(
        "unauthorized",
        401,
        "The request needs a token, or has one that is mistyped, unknown, expired or revoked; or the session of a page has ended.",
        "Send a valid token as `Authorization: Bearer km_…`, or sign in again with `POST /v1/session`. The operator creates a token with `keymill token create`.",
    ),
    entry(
        "forbidden",
        403,
        "The token does not allow this request.",
        "Use a token with the right (`take`, `name`, `read` or `admin`) for this keyspace.",
    ),
    entry(
        "foreign_host",
        403,
        "Without a token, the request addresses the server by a name that it does not know as its own.",
        "Address it as localhost or 127.0.0.1, or use a token. The operator can add the name to `allowed_hosts`.",
    ),
    entry(
        "foreign_origin",
        403,
        "Without a token, a web page of another origin tried to take or change something.",
        "Send the request from a program, or use a token. The operator can allow the page with `allowed_origins`.",
    ),
    entry(
        "rate_limited",
        429,
        "The token, or an address without one, has sent too much.",
        "Wait for `Retry-After` seconds, and take more keys at a time rather than more often.",
    ),
    entry(
        "above_burst",
        400,
        "The take is larger than the token may ever take at once.",
        "Take at most as many keys at once as `detail` says.",
    ),
    entry(
        "tokens_stale",
        503,
        "The store has been unreachable for so long that revoked tokens might still be accepted.",
        "Try again later. The operator must make the store reachable, or raise `tokens_max_age_seconds`.",
    ),
    entry(
        "unknown_token",
        404,
        "There is no token of this name.",
        "Check the name with `keymill token list`.",
    ),
    entry(
        "token_exists",
        409,
        "There is already a token of this name.",
        "Choose another name, or rotate the token to get a new text.",
    ),
    entry(
        "bad_token",
        400,
        "The token cannot be created like this.",
        "Correct what `detail` names.",
    ),
    entry(
        "too_many_imports",
        503,
        "Too many imports are running.",
        "Try again after `Retry-After` seconds.",
    ),
    entry(
        "pool_filling",
        503,
        "The pool is empty and is being filled.",
        "Try again after `Retry-After` seconds. If it happens often, raise `low_water`.",
    ),
    entry(
        "no_worker",
        503,
        "All worker numbers of the snowflake keyspace are held by other instances.",
        "Try again after `Retry-After` seconds. If it continues, run fewer instances or give the layout more worker bits.",
    ),
    entry(
        "no_keys_ready",
        503,
        "No keys are left in memory, and the store did not grant new ones in time.",
        "Try again after `Retry-After` seconds. If it continues, check the store and `GET /readyz`.",
    ),
    entry(
        "store_rolled_back",
        503,
        "The store was rolled back to an earlier state, so it could issue keys twice. Nothing is issued from it.",
        "The operator must run `keymill space advance` as `detail` says. Until then, trying again does not help.",
    ),
    entry(
        "store_unavailable",
        503,
        "The store is unreachable or did not answer in time.",
        "Try again after `Retry-After` seconds. If it continues, check the store with `keymill store check`.",
    ),
    entry(
        "store_broken",
        500,
        "The store, or a file of the server, holds something that cannot be right.",
        "The operator must read the server's log. Trying again does not help.",
    ),
];

const fn entry(
    code: &'static str,
    status: u16,
    meaning: &'static str,
    remedy: &'static str,
) -> Entry {
    Entry { code, status, meaning, remedy }
}

#[cfg(test)]
mod tests;
