package certs

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A server's own certificate stays the same until it expires soon. Several servers that start at
// the same time share it.
func TestOwn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "haul")
	var all sync.WaitGroup
	prints := make([]string, 8)
	for i := range prints {
		all.Go(func() {
			cert, _, err := Own(dir, nil, "h.example", "192.0.2.1")
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
	wantOwn(t, dir)
	now := time.Now()
	for _, at := range []struct {
		days int
		made bool
	}{{0, false}, {334, false}, {336, true}, {337, false}, {800, true}} {
		cert, made, err := own(dir, now.AddDate(0, 0, at.days), nil, []string{"h.example"})
		if err != nil || made != at.made || (Fingerprint(cert.Leaf) != prints[0]) != (at.days > 334) {
			t.Errorf("after %d days: made %v, %v", at.days, made, err)
		}
	}
}

// wantOwn checks that a directory has a certificate, and no separate key.
func wantOwn(t *testing.T, dir string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	if err != nil || !slices.Equal(names, []string{ownLock, ownFile}) {
		t.Errorf("the directory has %q, %v", names, err)
	}
	if lock, err := os.ReadFile(filepath.Join(dir, ownLock)); len(lock) > 0 || err != nil {
		t.Errorf("the lock has %d bytes, %v", len(lock), err)
	}
}

// Servers that renew the certificate at the same time get the same one, and one of them reports
// that it has made it.
func TestOwnRenewedAtOnce(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := own(dir, time.Now().AddDate(0, 0, -400), nil, []string{"h.example"}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var made atomic.Int32
	prints := make([]string, 8)
	for i := range prints {
		all.Go(func() {
			cert, created, err := Own(dir, nil, "h.example")
			if err != nil {
				t.Error(err)
				return
			}
			if prints[i] = Fingerprint(cert.Leaf); created {
				made.Add(1)
			}
		})
	}
	all.Wait()
	if len(slices.Compact(prints)) != 1 || made.Load() != 1 {
		t.Errorf("%d have made it, and the fingerprints are %q", made.Load(), prints)
	}
	if cert, created, err := Own(dir, nil, "h.example"); err != nil || created || Fingerprint(cert.Leaf) != prints[0] {
		t.Errorf("the next server makes another one: %v, %v", created, err)
	}
	wantOwn(t, dir)
}

// A server does not wait forever for another one that hangs.
func TestOwnLocked(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lockOwn(filepath.Join(dir, ownLock), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	synctest.Test(t, func(t *testing.T) {
		_, _, err := Own(dir, nil, "h.example")
		if err == nil || !strings.Contains(err.Error(), "make certificate "+OwnFile(dir)+": another process") || !strings.Contains(err.Error(), ownLock) {
			t.Errorf("it is locked: %v", err)
		}
	})
}

// If a process is killed at any moment while it makes a certificate, the next process can make one
// nevertheless.
func TestOwnKilled(t *testing.T) {
	const env = "HAUL_TEST_OWN"
	if dir := os.Getenv(env); dir != "" {
		fmt.Println("ready")
		for now := time.Now(); ; now = now.AddDate(1, 0, 0) { // each certificate has expired when the next is made
			if _, _, err := own(dir, now, nil, []string{"h.example"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := t.TempDir()
	for i := range 30 {
		c := exec.Command(os.Args[0], "-test.run=^TestOwnKilled$")
		c.Env = append(os.Environ(), env+"="+dir)
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err == nil {
			_, err = bufio.NewReader(out).ReadString('\n')
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i) * 100 * time.Microsecond) // so that each process is killed at another moment
		if err := c.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = c.Wait()
		if left, err := os.ReadDir(dir); err != nil || len(left) > 3 {
			t.Errorf("left over: %v, %v", left, err)
		}
		if _, err := loadOwn(OwnFile(dir), time.Now(), nil); err != nil {
			t.Error(err)
		}
	}
	// The file was just created, or is half written.
	for _, left := range []string{"", "-----BEGIN PRIVATE KEY-----\nMIGH"} {
		if err := os.WriteFile(filepath.Join(dir, ownNew), []byte(left), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(OwnFile(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if _, created, err := Own(dir, nil, "h.example"); err != nil || !created {
			t.Errorf("after %q: made %v, %v", left, created, err)
		}
		wantOwn(t, dir)
	}
}

// A file that is not a certificate, or that other users may read, causes an error, and is not changed.
func TestOwnBad(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("has no such permissions")
	}
	dir := t.TempDir()
	file := OwnFile(dir)
	if _, _, err := Own(dir, nil, "h.example"); err != nil {
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
		{string(good), 0o644, "other users of this machine"}, {string(good), 0o620, "permissions 0620"},
		{string(good[:len(good)/2]), 0o600, "cut off"}, {"", 0o600, "PEM"}, {"text", 0o600, "nothing in it is PEM"},
		{string(good[:begin]) + string(otherCert), 0o600, "does not match"},
	} {
		err := os.WriteFile(file, []byte(c.text), 0o600)
		if err == nil {
			err = os.Chmod(file, c.perm)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = Own(dir, nil, "h.example")
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "load certificate "+file) || !strings.Contains(err.Error(), "remove the file") {
			t.Errorf("%.20q %v: %v, want %q", c.text, c.perm, err, c.says)
		}
		if now, err := os.ReadFile(file); err != nil || string(now) != c.text {
			t.Error("the file has changed")
		}
	}
	if _, _, err := Own(file, nil, "h.example"); err == nil {
		t.Error("a file serves as the directory")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Own(dir, nil, "h.example"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
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
