module twinwall/tests/ends/go-tls

// From this version on a hello has a share of a post-quantum key that other servers take.
go 1.24
