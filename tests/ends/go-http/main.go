// SPDX-License-Identifier: GPL-2.0-or-later

// HTTP server of Go's net/http: `go-http ADDRESS:PORT` answers each request with its host, as SAW[HOST].
package main

import (
	"fmt"
	"net/http"
	"os"
)

func answer(writer http.ResponseWriter, request *http.Request) {
	fmt.Fprintf(writer, "SAW[%s]", request.Host)
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go-http ADDRESS:PORT")
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Args[1], http.HandlerFunc(answer)))
	os.Exit(1)
}
