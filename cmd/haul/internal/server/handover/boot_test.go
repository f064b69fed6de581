package handover

import (
	"errors"
	"net"
	"os"
	"testing"

	"github.com/haul-project/haul/udp"
)

// The sockets for boot clients are handed to the successor in the order that it names, and none of
// their packets is read before. Without boot clients they are closed.
func TestInheritBoot(t *testing.T) {
	addrs := []string{":67", ":4011"}
	passed := func() (all []Socket, at map[string]string) {
		at = map[string]string{}
		for _, addr := range []string{addrs[1], addrs[0]} {
			c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			f, err := c.File()
			if err != nil {
				t.Fatal(err)
			}
			all, at[addr] = append(all, Socket{Service: Boot, Addr: addr, File: f}), c.LocalAddr().String()
		}
		return all, at
	}
	sockets, at := passed()
	inherited, err := Inherit(udp.Config{}, []string{TFTP, Boot}, nil, sockets)
	if err != nil {
		t.Fatal(err)
	}
	files := inherited.Boot(addrs)
	if len(files) != len(addrs) {
		t.Fatalf("%d sockets", len(files))
	}
	for i, f := range files {
		c, err := net.FilePacketConn(f)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got := c.LocalAddr().String(); got != at[addrs[i]] {
			t.Errorf("%s has the socket at %s, want %s", addrs[i], got, at[addrs[i]])
		}
		_ = f.Close()
	}
	if again := inherited.Boot(addrs); again != nil {
		t.Error("sockets are taken twice")
	}

	sockets, _ = passed()
	file := sockets[0].File
	if inherited, err = Inherit(udp.Config{}, []string{TFTP}, nil, sockets); err != nil {
		t.Fatal(err)
	}
	inherited.Close()
	if _, err := file.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("without boot clients a socket stays open: %v", err)
	}
}
