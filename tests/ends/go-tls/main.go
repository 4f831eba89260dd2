// SPDX-License-Identifier: GPL-2.0-or-later

// TLS ends by Go's crypto/tls.
//
//	go-tls serve PORT CERTIFICATE KEY   prints "ready"; performs handshakes
//	go-tls ask                          connects concurrently for each input line: WAY HOST PORT NAME SECONDS, WAY = the highest
//	                                    offered version, 1.2 or 1.3; prints for each "NUMBER yes BYTES", BYTES of its
//	                                    hello, or "NUMBER no" if the handshake was not complete in time, in any order
package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

var versions = map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

// A connection that counts the bytes of its first write, which is the hello.
type counting struct {
	net.Conn
	hello int
}

func (conn *counting) Write(data []byte) (int, error) {
	if conn.hello == 0 {
		conn.hello = len(data)
	}
	return conn.Conn.Write(data)
}

func serve(port, certificate, key string) error {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}}
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			tls.Server(conn, config).Handshake()
		}()
	}
}

// Connects as requested; returns the answer to print.
func ask(way, host, port, name, seconds string) (string, error) {
	patience, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		return "", err
	}
	version, isKnown := versions[way]
	if !isKnown {
		return "", fmt.Errorf("there is no way %s", way)
	}
	raw, err := net.DialTimeout("tcp", net.JoinHostPort(host, port), 30*time.Second)
	if err != nil {
		return "", err
	}
	defer raw.Close()
	if err := raw.SetDeadline(time.Now().Add(time.Duration(patience * float64(time.Second)))); err != nil {
		return "", err
	}
	conn := &counting{Conn: raw}
	config := &tls.Config{
		ServerName:         name,
		InsecureSkipVerify: true,
		MaxVersion:         version,
		NextProtos:         []string{"http/1.1"},
	}
	err = tls.Client(conn, config).Handshake()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "no", nil
	}
	return fmt.Sprintf("yes %d", conn.hello), err
}

func askAll() error {
	var (
		wait   sync.WaitGroup
		guard  sync.Mutex
		failed error
	)
	lines := bufio.NewScanner(os.Stdin)
	for number := 0; lines.Scan(); number++ {
		words := strings.Fields(lines.Text())
		if len(words) != 5 {
			return fmt.Errorf("%q is no question", lines.Text())
		}
		wait.Add(1)
		go func() {
			defer wait.Done()
			said, err := ask(words[0], words[1], words[2], words[3], words[4])
			guard.Lock()
			defer guard.Unlock()
			if err != nil {
				failed = fmt.Errorf("%s: %w", strings.Join(words, " "), err)
				return
			}
			fmt.Println(number, said)
		}()
	}
	wait.Wait()
	return errors.Join(failed, lines.Err())
}

func main() {
	var err error
	switch {
	case len(os.Args) == 5 && os.Args[1] == "serve":
		err = serve(os.Args[2], os.Args[3], os.Args[4])
	case len(os.Args) == 2 && os.Args[1] == "ask":
		err = askAll()
	default:
		err = errors.New("go-tls serve PORT CERTIFICATE KEY, or go-tls ask")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
