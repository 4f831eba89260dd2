module twinwall/tests/ends/go-tls

// From this version on a hello has a post-quantum key share that other servers support.
go 1.24
