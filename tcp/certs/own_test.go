package certs

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A server's own certificate stays the same until it expires soon. Several servers that
// start at once have the same.
func TestOwn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "haul")
	var all sync.WaitGroup
	prints := make([]string, 8)
	for i := range prints {
		all.Go(func() {
			cert, _, err := Own(dir, "h.example", "192.0.2.1")
			if err != nil {
				t.Error(err)
				return
			}
			prints[i] = Fingerprint(cert.Leaf)
		})
	}
	all.Wait()
	if len(slices.Compact(prints)) != 1 || len(prints[0]) != 64 {
		t.Fatalf("the fingerprints are %q", prints)
	}
	info, err := os.Stat(OwnFile(dir))
	if err != nil {
		t.Fatal(err)
	}
	if perm := info.Mode().Perm(); perm != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("the file has permissions %v", perm)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left over: %v", left)
	}
	now := time.Now()
	for _, at := range []struct {
		days int
		made bool
	}{{0, false}, {334, false}, {336, true}, {337, false}, {800, true}} {
		cert, made, err := own(dir, now.AddDate(0, 0, at.days), []string{"h.example"})
		if err != nil || made != at.made || (Fingerprint(cert.Leaf) != prints[0]) != (at.days > 334) {
			t.Errorf("after %d days: made %v, %v", at.days, made, err)
		}
	}
}

// A file that is no certificate, or that others may read, is refused and stays.
func TestOwnBad(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("has no such permissions")
	}
	dir := t.TempDir()
	file := OwnFile(dir)
	if _, _, err := Own(dir, "h.example"); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other := testCert(t, "other.example")
	otherDir := pairIn(t.TempDir(), "x")
	createPair(t, otherDir, other)
	otherCert, err := os.ReadFile(otherDir.Cert)
	if err != nil {
		t.Fatal(err)
	}
	begin := strings.Index(string(good), "-----BEGIN CERT")
	for _, c := range []struct {
		text string
		perm os.FileMode
		says string
	}{
		{string(good), 0o644, "chmod"}, {string(good), 0o620, "permissions 0620"},
		{string(good[:len(good)/2]), 0o600, "cut off"}, {"", 0o600, "PEM"}, {"text", 0o600, "remove " + file},
		{string(good[:begin]) + string(otherCert), 0o600, "does not match"},
	} {
		err := os.WriteFile(file, []byte(c.text), 0o600)
		if err == nil {
			err = os.Chmod(file, c.perm)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = Own(dir, "h.example")
		if c.says == "chmod" {
			c.says = "other users of this machine"
		}
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), file) {
			t.Errorf("%.20q %v: %v, want %q", c.text, c.perm, err, c.says)
		}
		if now, err := os.ReadFile(file); err != nil || string(now) != c.text {
			t.Error("the file has changed")
		}
	}
	if _, _, err := Own(file, "h.example"); err == nil {
		t.Error("a file serves as the directory")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Own(dir, "h.example"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory has its name: %v", err)
	}
}

func TestHostsOf(t *testing.T) {
	hosts := HostsOf("192.0.2.7:443", "boot.example:443", "[2001:db8::1]:443", "bad name:1", "192.0.2.7:8443", "no port")
	for _, want := range []string{"localhost", "192.0.2.7", "boot.example", "2001:db8::1"} {
		if !slices.Contains(hosts, want) {
			t.Errorf("%q lack %s", hosts, want)
		}
	}
	if slices.Contains(hosts, "bad name") || len(hosts) > 5 {
		t.Errorf("%q", hosts)
	}
	if all := HostsOf(":443", "0.0.0.0:80", "[::]:443"); !slices.Contains(all, "127.0.0.1") || len(all) > maxHosts {
		t.Errorf("%q", all)
	}
	if _, err := SelfSigned(HostsOf(":443")...); err != nil {
		t.Error(err)
	}
}
