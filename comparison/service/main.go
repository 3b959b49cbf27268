// A key service as people write it: a range of a counter is reserved in SQLite, its keys are made in advance, and
// requests take them from a channel. keymill is compared with it; it promises nothing that keymill promises, and its keys can be guessed.
//
//	service ADDRESS DATABASE RANGE
package main

import (
	"database/sql"
	"log"
	"net/http"
	"os"
	"strconv"

	_ "github.com/mattn/go-sqlite3"
)

const symbols = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// write returns a number as seven characters of base62.
func write(number int64) string {
	var key [7]byte
	for at := len(key) - 1; at >= 0; at-- {
		key[at] = symbols[number%62]
		number /= 62
	}
	return string(key[:])
}

// reserve takes the next range of the counter, in one statement that is on disk when it returns.
func reserve(database *sql.DB, size int64) (end int64) {
	row := database.QueryRow("UPDATE counter SET next = next + ? RETURNING next", size)
	if err := row.Scan(&end); err != nil {
		log.Fatal(err)
	}
	return end
}

// fill keeps the channel full.
func fill(database *sql.DB, size int64, keys chan<- string) {
	for {
		end := reserve(database, size)
		for number := end - size; number < end; number++ {
			keys <- write(number)
		}
	}
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: service ADDRESS DATABASE RANGE")
	}
	size, err := strconv.ParseInt(os.Args[3], 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	database, err := sql.Open("sqlite3", os.Args[2]+"?_journal_mode=WAL&_synchronous=FULL")
	if err != nil {
		log.Fatal(err)
	}
	database.SetMaxOpenConns(1)
	_, err = database.Exec("CREATE TABLE counter (next INTEGER NOT NULL); INSERT INTO counter VALUES (0)")
	if err != nil {
		log.Fatal(err)
	}
	// Twice a range, so that the next one is reserved before this one ends.
	keys := make(chan string, 2*size)
	go fill(database, size, keys)
	http.HandleFunc("/get-key", func(answer http.ResponseWriter, _ *http.Request) {
		answer.Header().Set("Cache-Control", "no-store")
		answer.Header().Set("Content-Type", "text/plain; charset=utf-8")
		answer.Write([]byte(<-keys))
	})
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
