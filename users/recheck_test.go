package users_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/users"
	"golang.org/x/crypto/ssh"
)

// Recheck refuses a login for the same reasons as a new login, and also if the way in which the user
// logged in is not enough any more.
func TestRecheck(t *testing.T) {
	mine, other, ca := newSigner(t), newSigner(t), newSigner(t)
	certified := certify(t, ca, mine, nil)
	authority := "authority " + line("", ca.PublicKey()) + "\n"
	key, otherKey := "key "+line("", mine.PublicKey())+"\n", "key "+line("", other.PublicKey())+"\n"
	secret, changed := "password "+cheap(t, "secret")+"\n", "password "+cheap(t, "changed")+"\n"
	byKey := func(w *world) (*users.Login, error) { return w.withKeys("alice", mine) }
	byPassword := func(w *world) (*users.Login, error) { return w.withPassword("alice", "secret") }
	byCertificate := func(w *world) (*users.Login, error) { return w.withKeys("alice", certified) }
	byBoth := func(w *world) (*users.Login, error) {
		return w.handshake("alice", func(c *ssh.ClientConfig) {
			c.Auth = []ssh.AuthMethod{ssh.PublicKeys(mine), ssh.Password("secret")}
		})
	}
	const both = "require key+password\n"
	const alice = "user alice\n"
	for _, test := range []struct {
		name          string
		login         func(*world) (*users.Login, error)
		before, after string
		want          string // the reason, or "" if the login stays valid
	}{
		{"nothing is new", byKey, alice + key, alice + key + "# \n", ""},
		{"removed", byKey, alice + key, "user bob\n" + key, "removed"},
		{"disabled", byKey, alice + key, alice + key + "disabled\n", "disabled"},
		{"another root", byKey, alice + key, alice + key + "root x\n", "root"},
		{"another access", byKey, alice + key, alice + key + "access read-only\n", "access"},
		{"another rate", byKey, alice + key, alice + key + "limit 1MiB\n", ""},
		{"another network", byKey, alice + key, alice + key + "from 10.0.0.0/8\n", "address"},
		{"the same network", byKey, alice + key, alice + key + "from " + home + "\n", ""},

		{"another key", byKey, alice + key, alice + otherKey, "does not belong to the user"},
		{"one more key", byKey, alice + key, alice + otherKey + key, ""},
		{"the key from elsewhere", byKey, alice + key, alice + "key " + line(`from="10.0.0.0/8"`, mine.PublicKey()) + "\n", "from="},
		{"the key reads", byKey, alice + key, alice + "key " + line(`command="internal-sftp -R"`, mine.PublicKey()) + "\n", "other rights"},
		{"the key begins elsewhere", byKey, alice + key, alice + "key " + line(`command="internal-sftp -d /x"`, mine.PublicKey()) + "\n", "other rights"},
		{"the key runs out", byKey, alice + key, alice + "key " + line(`expiry-time="20261122130000Z"`, mine.PublicKey()) + "\n", ""},
		{"the key has run out before", byKey, alice + key, alice + "key " + line(`expiry-time="20200101"`, mine.PublicKey()) + "\n", "expiry-time"},
		{"a password besides", byKey, alice + key, alice + key + secret, ""},
		{"a password is needed", byKey, alice + key, alice + key + secret + both, "key and a password"},

		{"another password", byPassword, alice + secret, alice + changed, "password was changed"},
		{"no password", byPassword, alice + secret, alice + key, "password was changed"},
		{"a key besides", byPassword, alice + secret, alice + secret + key, ""},
		{"a key is needed", byPassword, alice + secret, alice + secret + key + both, "key and a password"},

		{"both hold", byBoth, alice + key + secret + both, alice + key + secret, ""},
		{"both, another key", byBoth, alice + key + secret + both, alice + otherKey + secret + both, "does not belong to the user"},
		{"both, another password", byBoth, alice + key + secret + both, alice + key + changed + both, "password was changed"},

		{"the authority holds", byCertificate, authority + alice, authority + alice + secret, ""},
		{"no authority", byCertificate, authority + alice, alice, "no known authority"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			file := write(t, dir, "users", test.before)
			w := &world{t: t, d: open(t, file)}
			l, err := test.login(w)
			if w.want(l, err, ""); t.Failed() {
				return
			}
			write(t, dir, "users", test.after)
			if changed, err := w.d.Reload(); !changed || err != nil {
				t.Fatalf("reload: %v, %v", changed, err)
			}
			err = w.d.Recheck(l)
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if refusal, ok := errors.AsType[*users.Refusal](err); !ok || !strings.Contains(refusal.Reason, test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// Revoking a key also ends existing logins; the passing of time alone does not.
func TestRecheckRevoked(t *testing.T) {
	mine, ca := newSigner(t), newSigner(t)
	certified := certify(t, ca, mine, nil)
	dir := t.TempDir()
	write(t, dir, "revoked", "")
	head := "revoked revoked\nauthority " + line("", ca.PublicKey()) + "\nuser alice\n"
	w := &world{t: t, d: open(t, write(t, dir, "users", head))}
	l, err := w.withKeys("alice", certified)
	w.want(l, err, "")
	if err := w.d.Recheck(l); err != nil {
		t.Error("the certificate may have run out since, which ends no login:", err)
	}
	write(t, dir, "revoked", line("", mine.PublicKey())+"\n")
	reload(t, w.d, true, "")
	if err := w.d.Recheck(l); err == nil || !strings.Contains(err.Error(), "revoked") {
		t.Error("the key is revoked, and the login holds:", err)
	}
}

// A file that changes within one tick of the file system's clock looks the same afterwards, but is
// still read again.
func TestReloadOfYoungFile(t *testing.T) {
	dir := t.TempDir()
	soon := time.Now().Add(time.Hour) // recent, however slow this machine is
	set := func(text string) {
		t.Helper()
		path := write(t, dir, "users", text)
		if err := os.Chtimes(path, soon, soon); err != nil {
			t.Fatal(err)
		}
	}
	set("user alice\n")
	d := open(t, dir+"/users")
	set("user clara\n")
	reload(t, d, true, "")
	if _, ok := d.User("clara"); !ok {
		t.Error("the change was missed")
	}
}
