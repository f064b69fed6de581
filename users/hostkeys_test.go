package users_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/haul-project/haul/users"
	"golang.org/x/crypto/ssh"
)

func TestHostKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etc", "[haul]*")
	if runtime.GOOS == "windows" {
		dir = filepath.Join(t.TempDir(), "etc", "haul")
	}
	keys, err := users.HostKeys(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) != 1 || !keys[0].Created || keys[0].Signer.PublicKey().Type() != ssh.KeyAlgoED25519 || keys[0].Fingerprint() != ssh.FingerprintSHA256(keys[0].Signer.PublicKey()) {
		t.Fatalf("got %+v", keys)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 || names[0].Name() != "ssh_host_ed25519_key" || filepath.Base(keys[0].File) != names[0].Name() {
		t.Errorf("the directory has %v, %v", names, err)
	}
	info, err := os.Stat(keys[0].File)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the key is %v, %v", info.Mode(), err)
	}
	again, err := users.HostKeys(dir)
	if err != nil || len(again) != 1 || again[0].Created || again[0].Fingerprint() != keys[0].Fingerprint() {
		t.Errorf("the second time: %+v, %v", again, err)
	}
	sig, err := again[0].Signer.Sign(nil, []byte("x"))
	if err != nil || keys[0].Signer.PublicKey().Verify([]byte("x"), sig) != nil {
		t.Errorf("the key does not sign: %v", err)
	}
}

// All servers that start at the same time get the same key.
func TestHostKeyRace(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	fingerprints := map[string]int{}
	created := 0
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			keys, err := users.HostKeys(dir)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
			fingerprints[keys[0].Fingerprint()]++
			if keys[0].Created {
				created++
			}
		})
	}
	wg.Wait()
	if len(fingerprints) != 1 || created != 1 {
		t.Errorf("keys %v, %d of them created", fingerprints, created)
	}
	if names, _ := os.ReadDir(dir); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}

func TestBadHostKeys(t *testing.T) {
	const name = "ssh_host_ed25519_key"
	fresh := func(t *testing.T) (dir, file string) {
		dir = t.TempDir()
		if _, err := users.HostKeys(dir); err != nil {
			t.Fatal(err)
		}
		return dir, filepath.Join(dir, name)
	}
	want := func(t *testing.T, dir, want string) {
		t.Helper()
		if keys, err := users.HostKeys(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %+v, %v; want %q", keys, err, want)
		}
	}
	t.Run("permissions", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("has no such permissions")
		}
		dir, file := fresh(t)
		for mode, reason := range map[os.FileMode]string{0o644: "everybody may read", 0o660: "may write", 0o602: "may write"} {
			if err := os.Chmod(file, mode); err != nil {
				t.Fatal(err)
			}
			want(t, dir, reason)
		}
		if err := os.Chmod(file, 0o640); err != nil {
			t.Fatal(err)
		}
		if _, err := users.HostKeys(dir); err != nil {
			t.Error(err)
		}
	})
	t.Run("owner", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root can give files away")
		}
		dir, file := fresh(t)
		for uid, bad := range map[int]bool{0: false, 1000: false, 1234: true} {
			if err := os.Chown(file, uid, 0); err != nil {
				t.Fatal(err)
			}
			_, err := users.HostKeys(dir, 1000)
			if bad != (err != nil && strings.Contains(err.Error(), "belongs to user 1234")) {
				t.Errorf("of user %d: %v", uid, err)
			}
		}
	})
	t.Run("garbage", func(t *testing.T) {
		dir, file := fresh(t)
		write(t, dir, name, content(t, file)[:100])
		want(t, dir, "no private key")
		write(t, dir, name, "")
		want(t, dir, "no private key")
	})
	t.Run("directory", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, "ssh_host_x_key/y", "")
		want(t, dir, "not a regular file")
	})
	t.Run("too many", func(t *testing.T) {
		dir := t.TempDir()
		for i := range 20 {
			write(t, dir, "ssh_host_"+string(rune('a'+i))+"_key", "")
		}
		want(t, dir, "20 keys")
	})
	t.Run("certificates", func(t *testing.T) {
		dir, file := fresh(t)
		keys, err := users.HostKeys(dir)
		if err != nil {
			t.Fatal(err)
		}
		ca := newSigner(t)
		host := func(c *ssh.Certificate) { c.CertType = ssh.HostCert }
		for text, reason := range map[string]string{
			line("", certify(t, ca, keys[0].Signer, nil).PublicKey()): "no certificate of a host",
			line("", certify(t, ca, newSigner(t), host).PublicKey()):  "another key",
			line("", keys[0].Signer.PublicKey()):                      "no certificate of a host",
			"x":                                                       "no certificate",
		} {
			write(t, dir, name+"-cert.pub", text)
			want(t, dir, reason)
		}
		write(t, dir, name+"-cert.pub", line("", certify(t, ca, keys[0].Signer, host).PublicKey()))
		keys, err = users.HostKeys(dir)
		if err != nil || len(keys) != 2 || keys[1].File != file+"-cert.pub" || keys[0].Fingerprint() != keys[1].Fingerprint() {
			t.Errorf("got %+v, %v", keys, err)
		}
	})
	t.Run("no directory", func(t *testing.T) {
		file := write(t, t.TempDir(), "file", "")
		want(t, filepath.Join(file, "x"), "host keys")
	})
}
