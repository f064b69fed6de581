// Package sftpprogtest is for the tests of the programs of package sftpprog.
package sftpprogtest

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/sftpprog"
)

// patience limits the duration of each step of a test.
const patience = 20 * time.Second

// Test tests a library's server with the library's client, in all modes. `at` returns the name by
// which the server knows a file in the served directory.
func Test(t *testing.T, l sftpprog.Library, at func(dir, name string) string) {
	served, local := t.TempDir(), t.TempDir()
	keys, err := peer.NewKeys(t.TempDir(), "root")
	if err != nil {
		t.Fatal(err)
	}
	addr := free(t)
	if err := keys.Trust(addr); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		// -delay is for experiments; it does not change the transferred data.
		ended <- sftpprog.Run(ctx, l, []string{sftpprog.Serve, "-delay", "-addr", addr.String(), "-key", keys.Host, "-trust", keys.Authorized, "-dir", served}, nil)
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with: %v", err)
		}
	}()
	await(t, addr)
	client := func(verb, name string, more ...string) sftpprog.Result {
		t.Helper()
		var out bytes.Buffer
		args := append([]string{verb, "-addr", addr.String(), "-key", keys.Private, "-trust", keys.Known, "-remote", at(served, name)}, more...)
		if err := sftpprog.Run(t.Context(), l, args, &out); err != nil {
			t.Fatal(err)
		}
		var r sftpprog.Result
		if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Seconds <= 0 || r.Login <= 0 {
			t.Fatalf("%s printed %q: %v", verb, &out, err)
		}
		return r
	}

	want := make([]byte, 300_000)
	for i := range want {
		want[i] = byte(i * 7 >> 3)
	}
	source, got := filepath.Join(local, "source"), filepath.Join(local, "got")
	if err := os.WriteFile(source, want, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, verbs := range [][2]string{{sftpprog.Put, sftpprog.Get}, {sftpprog.StreamPut, sftpprog.StreamGet}} {
		name := verbs[0] + "-f"
		if r := client(verbs[0], name, "-local", source); r.Bytes != int64(len(want)) {
			t.Errorf("%s says %d bytes, of %d", verbs[0], r.Bytes, len(want))
		}
		if r := client(verbs[1], name, "-local", got); r.Bytes != int64(len(want)) {
			t.Errorf("%s says %d bytes, of %d", verbs[1], r.Bytes, len(want))
		}
		for _, path := range []string{filepath.Join(served, name), got} {
			if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, want) {
				t.Errorf("%s has %d bytes, %v, other than the %d sent", path, len(b), err, len(want))
			}
		}
	}
	if err := os.WriteFile(filepath.Join(served, "f"), want, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := client(sftpprog.Read, "f", "-buffer", "1000"); r.Bytes != int64(len(want)) {
		t.Errorf("read says %d bytes, of %d", r.Bytes, len(want))
	}
	client(sftpprog.Write, "g", "-buffer", "1000", "-size", "12345")
	if info, err := os.Stat(filepath.Join(served, "g")); err != nil || info.Size() != 12345 {
		t.Errorf("written with a buffer: %v, %v", info, err)
	}
	// With a time limit of 0, reading and writing stop at once without an error.
	if r := client(sftpprog.Read, "f", "-limit", "0s"); r.Bytes != 0 {
		t.Errorf("read says %d bytes, in no time", r.Bytes)
	}
	if err := sftpprog.Run(t.Context(), l, []string{"dance"}, nil); err == nil {
		t.Error("no error about a verb that is none")
	}
}

// free returns a loopback address with a port that was free a moment ago.
func free(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// await returns once a server listens at addr.
func await(t *testing.T, addr netip.AddrPort) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		c, err := net.Dial("tcp", addr.String())
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
