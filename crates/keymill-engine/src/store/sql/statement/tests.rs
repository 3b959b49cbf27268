//! One statement of each form, in each dialect.

use super::*;

static POSTGRES: Dialect = Dialect {
    number: 0,
    placeholders: Placeholders::Dollar,
    lists: Lists::Arrays,
    words: Words { now: "now()", lock: "LOCKED", primary: "P", ..Words::NONE },
};
static MYSQL: Dialect = Dialect {
    number: 1,
    placeholders: Placeholders::Bare,
    lists: Lists::Literals,
    words: Words {
        now: "now()",
        lock: "L",
        primary: "P",
        gone: "g",
        as_gone: "AS g",
        ..Words::NONE
    },
};
static SQLITE: Dialect = Dialect {
    number: 2,
    placeholders: Placeholders::Numbered,
    lists: Lists::OneByOne,
    words: Words { now: "$now", ..Words::NONE },
};

#[test]
fn parameters_are_numbered_by_their_first_use_or_repeated_with_each() {
    let statement = Statement::new("UPDATE t SET key = $2, at = {now} WHERE k = $1 OR j = $2");
    let said = |dialect| (statement.said(dialect).text.as_str(), &statement.said(dialect).order);
    let expected = "UPDATE t SET key = $1, at = now() WHERE k = $2 OR j = $1";
    assert_eq!(said(&POSTGRES), (expected, &vec![1, 0]));
    let expected = "UPDATE t SET `key` = ?, at = now() WHERE k = ? OR j = ?";
    assert_eq!(said(&MYSQL), (expected, &vec![1, 0, 1]));
    let expected = "UPDATE t SET key = ?1, at = ?2 WHERE k = ?3 OR j = ?1";
    assert_eq!(said(&SQLITE), (expected, &vec![1, NOW, 0]));
}

#[test]
fn a_list_is_arrays_literals_or_run_item_by_item() {
    let list = Statement::list("DELETE FROM t", "s = $1", "id", "");
    assert_eq!(list.said(&POSTGRES).text, "DELETE FROM t WHERE s = $1 AND id = ANY($2) ");
    let expected = format!("DELETE FROM t WHERE s = $1 AND id IN ({ITEMS}) ");
    assert_eq!(list.said(&MYSQL).text, expected);
    assert_eq!(list.said(&SQLITE).text, "DELETE FROM t WHERE s = ?1 AND id = ?2 ");
    let each = Statement::each("SELECT a FROM t", "s = $1", "k, l");
    let expected = "SELECT found.* FROM unnest($1, $2) AS wanted (c0, c1) CROSS JOIN LATERAL \
                    (SELECT a FROM t WHERE s = $3 AND k = wanted.c0 AND l = wanted.c1 LIMIT 1) \
                    AS found";
    let said = each.said(&POSTGRES);
    assert_eq!((said.text.as_str(), &said.order), (expected, &vec![1, 2, 0]));
    let removal = Statement::removal("t", "s = $1", "id", "id, key");
    let expected = "DELETE FROM t WHERE s = ?1 AND id = ?2 RETURNING id, key";
    assert_eq!(removal.said(&SQLITE).text, expected);
    let said = removal.said(&MYSQL);
    let expected = format!("SELECT id, `key` FROM t P WHERE s = $1 AND id IN ({ITEMS}) L");
    assert_eq!(said.text, expected);
    let expected = format!("DELETE g FROM t AS g WHERE s = $1 AND id IN ({ITEMS}) ");
    assert_eq!(said.removal.as_ref(), Some(&expected));
}

#[test]
fn rows_are_written_one_by_one_or_all_at_once() {
    let insert = Statement::insert("t", "s = $1, at = {now}", "k, v", There::Becomes("k", "v"));
    let said = insert.said(&SQLITE);
    let expected = "INSERT INTO t (s, at, k, v) VALUES (?1, ?2, ?3, ?4) \
                    ON CONFLICT (k) DO UPDATE SET v = excluded.v";
    assert_eq!((said.text.as_str(), &said.order), (expected, &vec![0, NOW, 1, 2]));
    let many = insert.said(&POSTGRES).many.as_ref().unwrap();
    let expected = "INSERT INTO t (s, at, k, v) SELECT $1, now(), c0, c1 \
                    FROM unnest($2, $3) AS new (c0, c1)";
    assert_eq!(many.text, expected);
    let many = insert.said(&MYSQL).many.as_ref().unwrap();
    assert_eq!(many.text, "INSERT INTO t (s, at, k, v) VALUES ");
    assert_eq!(many.shared, "$1, now(), ");
    assert_eq!(many.tail, " ON DUPLICATE KEY UPDATE v = VALUES(v)");
}

#[test]
fn a_column_that_a_dialect_has_no_word_for_is_left_out_with_its_value() {
    let insert = Statement::insert("t", "", "a, {open_for}, b", There::Never);
    let said = insert.said(&SQLITE);
    assert_eq!(said.text, "INSERT INTO t (a, b) VALUES (?1, ?2)");
    assert_eq!(said.order, [0, 2]);
    assert_eq!(said.many.as_ref().unwrap().columns, [0, 2]);
}

#[test]
fn rows_get_values_of_their_own() {
    let update = Statement::update("t", "at = {now}, ", "k, l", "v");
    let expected = "UPDATE t SET at = now(), v = new.v FROM unnest($1, $2, $3) \
                    AS new (k, l, v) WHERE t.k = new.k AND t.l = new.l";
    assert_eq!(update.said(&POSTGRES).text, expected);
    let said = update.said(&SQLITE);
    assert_eq!(said.text, "UPDATE t SET at = ?1, v = ?2 WHERE k = ?3 AND l = ?4");
    assert_eq!(said.order, [NOW, 2, 0, 1]);
    assert_eq!(update.said(&MYSQL).text, format!("UPDATE t P SET at = now(), {ITEMS}"));
}

#[test]
#[should_panic(expected = "no word is {lokc}")]
fn a_word_that_is_not_known_is_an_error() {
    Statement::new("SELECT 1 {lokc}").said(&SQLITE);
}
