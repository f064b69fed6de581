package users_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/users"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/crypto/ssh"
)

// cheap returns a bcrypt hash of the lowest possible cost.
func cheap(t testing.TB, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

func TestKeyLogin(t *testing.T) {
	mine, other := newSigner(t), newSigner(t)
	rsaSigner := signerOf(t, rsaKey())
	w := newWorld(t, users.User{
		Name: "alice",
		Keys: []users.Key{key(t, "", mine.PublicKey()), key(t, `command="internal-sftp -R -d /in/%u"`, rsaSigner.PublicKey())},
		Root: "srv/%u", Limit: 1000,
	}, users.User{Name: "bob"})

	l, err := w.withKeys("alice", mine)
	w.want(l, err, "")
	if l.Access != users.Full || l.Dir != "/" || l.Method != "publickey" || l.User.Limit != 1000 || filepath.ToSlash(l.User.Root) != "srv/alice" ||
		l.Key != ssh.FingerprintSHA256(mine.PublicKey()) || l.Peer != netip.MustParseAddr(home) {
		t.Errorf("got %+v", l)
	}

	l, err = w.withKeys("alice", rsaSigner)
	w.want(l, err, "")
	if l.Access != users.ReadOnly || l.Dir != "/in/alice" {
		t.Errorf("got %+v", l)
	}

	l, err = w.withKeys("alice", other)
	w.want(l, err, "does not belong to the user")
	if !w.last().Offered || w.last().Key != ssh.FingerprintSHA256(other.PublicKey()) {
		t.Errorf("got %+v", w.last())
	}
	l, err = w.withKeys("bob", mine)
	w.want(l, err, "does not belong to the user")
	l, err = w.withKeys("carol", mine)
	w.want(l, err, "no such user")
	l, err = w.withKeys("alice", other, mine)
	w.want(l, err, "")
}

// Each of several limits may be the only one.
func TestUserLimits(t *testing.T) {
	mine := newSigner(t)
	k := []users.Key{key(t, "", mine.PublicKey())}
	readOnly := []users.Key{key(t, `command="internal-sftp -R"`, mine.PublicKey())}
	h := hash(t, "secret")
	lan := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	elsewhere := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
	tests := []struct {
		user users.User
		want string
	}{
		{users.User{Name: "ok", From: lan}, ""},
		{users.User{Name: "off", Disabled: true}, "disabled"},
		{users.User{Name: "away", From: elsewhere}, "not log in from this address"},
		{users.User{Name: "up", Access: users.UploadOnly}, ""},
	}
	var all []users.User
	for _, test := range tests {
		u := test.user
		u.Keys, u.Password = k, h
		all = append(all, u)
	}
	all = append(all, users.User{Name: "neither", Keys: readOnly, Access: users.UploadOnly})
	w := newWorld(t, all...)
	for _, test := range tests {
		for method, login := range map[string]func() (*users.Login, error){
			"key":         func() (*users.Login, error) { return w.withKeys(test.user.Name, mine) },
			"password":    func() (*users.Login, error) { return w.withPassword(test.user.Name, "secret") },
			"interactive": func() (*users.Login, error) { return w.interactively(test.user.Name, "secret") },
		} {
			t.Run(test.user.Name+" by "+method, func(t *testing.T) {
				l, err := login()
				w.want(l, err, test.want)
				if err == nil && l.Access != test.user.Access {
					t.Errorf("access %v, want %v", l.Access, test.user.Access)
				}
			})
		}
	}
	l, err := w.withKeys("neither", mine)
	w.want(l, err, "only upload, and the key only read")
}

// A peer without a known address matches neither from= nor the from statement.
func TestPeersWithoutAddress(t *testing.T) {
	mine := newSigner(t)
	w := newWorld(t,
		users.User{Name: "any", Keys: []users.Key{key(t, "", mine.PublicKey())}},
		users.User{Name: "line", Keys: []users.Key{key(t, `from="*"`, mine.PublicKey())}},
		users.User{Name: "user", Keys: []users.Key{key(t, "", mine.PublicKey())}, From: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}},
	)
	w.peer = &net.UnixAddr{Name: "/run/haul.sock", Net: "unix"}
	l, err := w.withKeys("any", mine)
	w.want(l, err, "")
	l, err = w.withKeys("line", mine)
	w.want(l, err, "from=")
	l, err = w.withKeys("user", mine)
	w.want(l, err, "this address")
	// An IPv4 address in IPv6 form, as sockets for both report it.
	w.peer = &net.TCPAddr{IP: net.ParseIP("::ffff:192.0.2.1"), Port: 1}
	l, err = w.withKeys("user", mine)
	w.want(l, err, "")
}

func TestPasswordLogin(t *testing.T) {
	w := newWorld(t, users.User{Name: "alice", Password: hash(t, "secret"), Access: users.ReadOnly})
	for method, login := range map[string]func(user, password string) (*users.Login, error){
		"password": w.withPassword, "keyboard-interactive": w.interactively,
	} {
		l, err := login("alice", "secret")
		w.want(l, err, "")
		if l.Method != method || l.Access != users.ReadOnly || w.last().Method != method {
			t.Errorf("got %+v", l)
		}
		l, err = login("alice", "Secret")
		w.want(l, err, "wrong password")
		l, err = login("mallory", "secret")
		w.want(l, err, "no such user")
	}
	if _, err := w.handshake("alice", func(*ssh.ClientConfig) {}); err == nil {
		t.Error("logged in with no method at all")
	}
}

// Passwords are only offered if a user has one.
func TestWhatIsOffered(t *testing.T) {
	mine := newSigner(t)
	keys := []users.Key{key(t, "", mine.PublicKey())}
	tests := []struct {
		name    string
		d       *users.Directory
		options users.Options
		want    bool
	}{
		{"with a password", directory(t, users.User{Name: "a", Keys: keys}, users.User{Name: "b", Password: hash(t, "x")}), users.Options{}, true},
		{"without", directory(t, users.User{Name: "a", Keys: keys}), users.Options{}, false},
		{"none wanted", directory(t, users.User{Name: "a", Password: hash(t, "x")}), users.Options{NoPasswords: true}, false},
		{"no users", directory(t), users.Options{}, false},
	}
	for _, test := range tests {
		config := ssh.ServerConfig{NoClientAuth: true, NoClientAuthCallback: func(ssh.ConnMetadata) (*ssh.Permissions, error) { return nil, nil }}
		test.d.Configure(&config, test.options)
		if got := config.PasswordCallback != nil; got != test.want || got != (config.KeyboardInteractiveCallback != nil) {
			t.Errorf("%s: passwords are offered: %v", test.name, got)
		}
		if config.NoClientAuth || config.NoClientAuthCallback != nil || config.PublicKeyCallback == nil {
			t.Errorf("%s: the configuration is %+v", test.name, config)
		}
	}
}

func TestKeyAndPassword(t *testing.T) {
	mine, other := newSigner(t), newSigner(t)
	w := newWorld(t,
		users.User{
			Name: "alice", Require: users.KeyAndPassword, Password: hash(t, "secret"),
			Keys: []users.Key{key(t, `command="internal-sftp -R -d /in"`, mine.PublicKey())},
		},
		users.User{Name: "keyonly", Require: users.KeyAndPassword, Keys: []users.Key{key(t, "", mine.PublicKey())}},
	)
	both := func(s ssh.Signer, password string) func(*ssh.ClientConfig) {
		return func(c *ssh.ClientConfig) { c.Auth = []ssh.AuthMethod{ssh.PublicKeys(s), ssh.Password(password)} }
	}
	l, err := w.handshake("alice", both(mine, "secret"))
	w.want(l, err, "")
	if l.Method != "publickey+password" || l.Access != users.ReadOnly || l.Dir != "/in" || l.Key == "" {
		t.Errorf("the second step lost what the first one said: %+v", l)
	}
	if len(w.events) != 2 || w.events[0].Outcome != users.Partial {
		t.Errorf("events: %+v", w.events)
	}
	l, err = w.handshake("alice", both(mine, "wrong"))
	w.want(l, err, "wrong password")
	l, err = w.handshake("alice", both(mine, ""))
	w.want(l, err, "empty")
	l, err = w.handshake("alice", both(other, "secret"))
	w.want(l, err, "not enough")
	l, err = w.withKeys("alice", mine)
	if err == nil || w.last().Outcome != users.Partial {
		t.Errorf("with the key alone: %+v, %v, %+v", l, err, w.events)
	}
	l, err = w.withPassword("alice", "secret")
	w.want(l, err, "not enough")
	l, err = w.withKeys("keyonly", mine)
	w.want(l, err, "needs a password too, and has none")
	w.options.NoPasswords = true
	l, err = w.withKeys("alice", mine)
	w.want(l, err, "passwords are off")
	if _, err := w.d.Password(t.Context(), users.Attempt{Now: now}, "alice", []byte("secret")); err == nil {
		t.Error("a password alone is enough outside of SSH")
	}
}

// A check must take the same time for every user. The test counts the work instead of measuring the
// time, because measured times are only right on idle machines.
func TestSameWorkForEverybody(t *testing.T) {
	h := hash(t, "secret")
	away := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	d := directory(t,
		users.User{Name: "alice", Password: h},
		users.User{Name: "keys"},
		users.User{Name: "off", Password: h, Disabled: true},
		users.User{Name: "away", Password: h, From: away},
		users.User{Name: "both", Password: h, Require: users.KeyAndPassword},
	)
	at := users.Attempt{Now: now, Peer: netip.MustParseAddr(home)}
	for _, name := range []string{"alice", "keys", "off", "away", "both", "nobody", "", "../etc", "alice\x00"} {
		for _, password := range []string{"secret", "wrong", strings.Repeat("x", users.MaxPassword)} {
			before := d.Checked()
			_, err := d.Password(t.Context(), at, name, []byte(password))
			if ok := name == "alice" && password == "secret"; (err == nil) != ok {
				t.Errorf("%q with %.8q: %v", name, password, err)
			}
			if n := d.Checked() - before; n != 1 {
				t.Errorf("%q with %.8q takes %d hashes, want 1", name, password, n)
			}
		}
		for _, password := range []string{"", strings.Repeat("x", users.MaxPassword+1)} {
			before := d.Checked()
			if _, err := d.Password(t.Context(), at, name, []byte(password)); err == nil {
				t.Errorf("%q is let in with %.8q", name, password)
			}
			if n := d.Checked() - before; n != 0 {
				t.Errorf("%q with %d bytes takes %d hashes, want none", name, len(password), n)
			}
		}
	}
	// The same holds without any users.
	d = directory(t)
	if _, err := d.Password(t.Context(), at, "root", []byte("toor")); err == nil || d.Checked() != 1 {
		t.Errorf("no users: %v, %d hashes", err, d.Checked())
	}
}

func TestChecksAreBounded(t *testing.T) {
	d := directory(t, users.User{Name: "alice", Password: hash(t, "secret")})
	at := users.Attempt{Now: now}
	free := d.Occupy()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var wg sync.WaitGroup
	errs := make(chan error, users.MaxWaiting)
	for i := range users.MaxWaiting {
		c := t.Context()
		if i < users.MaxWaiting/2 {
			c = ctx
		}
		wg.Go(func() {
			_, err := d.Password(c, at, "alice", []byte("secret"))
			errs <- err
		})
	}
	for d.Waiting() < users.MaxWaiting {
		time.Sleep(time.Millisecond)
	}
	if _, err := d.Password(t.Context(), at, "alice", []byte("secret")); !errors.Is(err, users.ErrBusy) {
		t.Errorf("one more: %v, want ErrBusy", err)
	}
	gone := errors.New("the client is gone")
	cancel(gone)
	for range users.MaxWaiting / 2 {
		if err := <-errs; !errors.Is(err, gone) {
			t.Errorf("got %v, want what ended the context", err)
		}
	}
	free()
	wg.Wait()
	for range users.MaxWaiting / 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if d.Waiting() != 0 {
		t.Errorf("%d are still waiting", d.Waiting())
	}
}

// A login that the server had no time to check is logged as such, and not as a wrong password.
func TestBusyEvent(t *testing.T) {
	w := newWorld(t, users.User{Name: "alice", Password: hash(t, "secret")})
	free := w.d.Occupy()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range users.MaxWaiting {
		wg.Go(func() { _, _ = w.d.Password(ctx, users.Attempt{Now: now}, "x", []byte("y")) })
	}
	for w.d.Waiting() < users.MaxWaiting {
		time.Sleep(time.Millisecond)
	}
	if _, err := w.withPassword("alice", "secret"); err == nil || w.last().Outcome != users.Busy {
		t.Errorf("%v, %+v", err, w.last())
	}
	cancel()
	wg.Wait()
	free()
}

func TestEventsTellNoSecret(t *testing.T) {
	mine := newSigner(t)
	const secret = "correct-horse-battery"
	w := newWorld(t, users.User{Name: "alice", Password: hash(t, secret), Require: users.KeyAndPassword, Keys: []users.Key{key(t, "", mine.PublicKey())}})
	var all []users.Event
	for _, user := range []string{"alice", "bob", strings.Repeat("x", 1000), "a\nb"} {
		for _, password := range []string{secret, "wrong-" + secret} {
			_, _ = w.handshake(user, func(c *ssh.ClientConfig) {
				c.Auth = []ssh.AuthMethod{ssh.PublicKeys(mine), ssh.Password(password)}
			})
			all = append(all, w.events...)
		}
	}
	u, _ := w.d.User("alice")
	var b strings.Builder
	log := slog.New(slog.NewJSONHandler(&b, nil))
	for _, e := range all {
		log.Info("login", "event", e)
		if len(e.User) > 80 {
			t.Errorf("the user's name has %d bytes in the log", len(e.User))
		}
	}
	log.Info("user", "user", u)
	fmt.Fprintf(&b, "%v %+v %#v %s", u, u, u, u.Password)
	text := b.String()
	if strings.Contains(text, secret) || strings.Contains(text, u.Password.Encoded()) || strings.Contains(text, u.Password.Encoded()[10:]) {
		t.Errorf("a secret is in the log:\n%s", text)
	}
	for _, want := range []string{`"outcome":"partial"`, `"outcome":"accepted"`, `"reason":"wrong password"`, `"peer":"192.0.2.1"`, `"key":"SHA256:`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in the log", want)
		}
	}
}

func TestOneTime(t *testing.T) {
	d, password, err := users.OneTime(users.Full)
	if err != nil {
		t.Fatal(err)
	}
	_, again, err := users.OneTime(users.Full)
	if err != nil || again == password {
		t.Errorf("the second password is %q, the first was %q", again, password)
	}
	if len(password) != 23 || strings.Trim(password, "abcdefghjkmnpqrstuvwxyz23456789-") != "" {
		t.Errorf("the password is %q", password)
	}
	w := &world{t: t, d: d}
	l, err := w.withPassword(users.OneTimeUser, password)
	w.want(l, err, "")
	if l.Access != users.Full {
		t.Errorf("got %+v", l)
	}
	l, err = w.withPassword(users.OneTimeUser, again)
	w.want(l, err, "wrong password")
	if changed, err := d.Reload(); changed || err != nil {
		t.Errorf("reloading nothing: %v, %v", changed, err)
	}
}

func TestLoginOf(t *testing.T) {
	for _, p := range []*ssh.Permissions{nil, {}, {ExtraData: map[any]any{"login": &users.Login{}}}} {
		if l, ok := users.LoginOf(p); ok || l != nil {
			t.Errorf("%+v has a login", p)
		}
	}
}
