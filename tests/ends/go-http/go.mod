module twinwall/tests/ends/go-http

go 1.24
