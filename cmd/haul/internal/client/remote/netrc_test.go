package remote

import (
	"strings"
	"testing"
)

const netrcText = `# mine
machine example.com login me password "a b\"c"
machine other.example
	login you
	password #secret
	account x
macdef init
cd /pub
machine trap login no password no

machine example.com login second password two
machine nologin password alone
default login anonymous password guest
`

// The file has all kinds of entries, and every fault is an error that does not repeat a password.
func TestNetrc(t *testing.T) {
	for _, c := range []struct{ host, user, login, password string }{
		{"example.com", "", "me", `a b"c`},
		{"EXAMPLE.com", "me", "me", `a b"c`},
		{"example.com", "second", "second", "two"},
		{"other.example", "", "you", "#secret"},
		{"nologin", "anyone", "anyone", "alone"},
		{"trap", "", "anonymous", "guest"},
		{"else", "", "anonymous", "guest"},
	} {
		login, password, ok, err := parseNetrc([]byte(netrcText), c.host, c.user)
		if err != nil || !ok || login != c.login || password != c.password {
			t.Errorf("%s, %s: %q %q %v %v", c.host, c.user, login, password, ok, err)
		}
	}
	crlf := strings.ReplaceAll(netrcText, "\n", "\r\n")
	if login, password, ok, err := parseNetrc([]byte(crlf), "nologin", ""); login != "" || password != "alone" || !ok || err != nil {
		t.Errorf("after a macro in a file with CRLF: %q %q %v %v", login, password, ok, err)
	}
	const afterMacro = "macdef m\ncd x\n\n\nmachine h login"
	if _, _, _, err := parseNetrc([]byte(afterMacro), "h", ""); err == nil || !strings.Contains(err.Error(), "line 5:") {
		t.Errorf("a mistake in line 5, after a macro: %v", err)
	}
	if login, _, ok, err := parseNetrc([]byte(netrcText), "else", "me"); ok || err != nil {
		t.Errorf("another user gets the entry of %q, %v", login, err)
	}
	for _, text := range []string{
		"machine", "machine h login", "machine h login a password", "login a", "machine h secret", `machine h password "open`, "machine h password \"a\nb\"",
		strings.Repeat("#", maxNetrc+1),
	} {
		if _, _, ok, err := parseNetrc([]byte(text), "h", ""); err == nil || ok {
			t.Errorf("%.30q is taken", text)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q repeats what may be a password: %v", text, err)
		}
	}
}

func FuzzNetrc(f *testing.F) {
	f.Add([]byte(netrcText), "example.com", "")
	f.Add([]byte("machine a login b password c"), "a", "b")
	f.Add([]byte("macdef x\n\n\ndefault password \"\\"), "a", "b")
	f.Fuzz(func(t *testing.T, text []byte, host, user string) {
		login, password, ok, err := parseNetrc(text, host, user)
		if err != nil && ok {
			t.Fatal("an answer with an error")
		}
		if !ok && (login != "" || password != "") {
			t.Fatalf("%q %q without ok", login, password)
		}
		if ok && user != "" && login != user {
			t.Fatalf("%q for %q", login, user)
		}
	})
}
