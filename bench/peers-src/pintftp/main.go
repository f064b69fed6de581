//go:build ignore

// Pintftp serves a directory with pin/tftp, for measurements. It consists of the few lines that
// the README of pin/tftp shows, and nothing that makes it slower or faster. It is not part of the
// bench module, whose dependencies it does not share; scripts/install-bench-peers builds it.
package main

import (
	"flag"
	"io"
	"log"
	"os"
	"time"

	"github.com/pin/tftp"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:6969", "`address` to serve on")
	dir := flag.String("dir", ".", "`directory` to serve, and to store uploads in")
	single := flag.Bool("single-port", false, "answer from the port that was asked")
	flag.Parse()

	root, err := os.OpenRoot(*dir)
	if err != nil {
		log.Fatal("pintftp: ", err)
	}
	read := func(name string, to io.ReaderFrom) error {
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = to.ReadFrom(f)
		return err
	}
	write := func(name string, from io.WriterTo) error {
		f, err := root.Create(name)
		if err != nil {
			return err
		}
		_, err = from.WriteTo(f)
		if e := f.Close(); err == nil {
			err = e
		}
		return err
	}
	s := tftp.NewServer(read, write)
	s.SetTimeout(5 * time.Second)
	if *single {
		// By default the library uses blocks of at most 512 bytes on a single port.
		s.SetBlockSize(65456)
		s.EnableSinglePort()
	}
	log.Fatal("pintftp: ", s.ListenAndServe(*listen))
}
