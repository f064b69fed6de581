package site_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/netip"
	"os"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/cmd/haul/internal/tftp/remap"
	"github.com/haul-project/haul/store"
)

// Rewrites the names that clients ask for, denies some, and gives uploads unique names.
func Example() {
	ctx := context.Background()
	boot, incoming := store.Mem(1<<20), store.Mem(1<<20)
	u, err := boot.Create(ctx, "pxelinux.cfg", store.Create{})
	if err != nil {
		log.Fatal(err)
	}
	defer u.Close()
	if _, err := io.WriteString(io.NewOffsetWriter(u, 0), "default linux\n"); err != nil {
		log.Fatal(err)
	}
	if err := u.Commit(); err != nil {
		log.Fatal(err)
	}

	rules, err := remap.Parse(`ri \.key$ \0`)
	if err != nil {
		log.Fatal(err)
	}
	deny, err := site.ParseRule("deny read * *.key")
	if err != nil {
		log.Fatal(err)
	}
	s := &site.Site{
		Roots:  []site.Root{{Files: boot, Uploads: incoming}},
		Map:    rules,
		Access: []site.Rule{deny},
		Upload: site.UploadUnique,
		Now:    func() time.Time { return time.Date(2026, 11, 22, 10, 15, 0, 123e6, time.UTC) },
	}
	if err := s.Check(); err != nil {
		log.Fatal(err)
	}

	c := site.Client{Peer: netip.MustParseAddr("192.0.2.7"), Local: netip.MustParseAddrPort("192.0.2.1:69")}
	f, err := s.Open(ctx, c, `\pxelinux.cfg`)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(os.Stdout, io.NewSectionReader(f, 0, 1<<20)); err != nil {
		log.Fatal(err)
	}

	_, err = s.Open(ctx, c, "Host.KEY")
	fmt.Println(errors.Is(err, fs.ErrPermission), err)

	up, err := s.Create(ctx, c, "config.txt", store.Create{})
	if err != nil {
		log.Fatal(err)
	}
	defer up.Close()
	fmt.Println(up.(*site.Upload).Name)
	// Output:
	// default linux
	// true access denied: access rule 1: deny read * *.key
	// config.20261122T101500.123Z.txt
}
