package users_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/users"
	"golang.org/x/crypto/ssh"
)

func TestParseKey(t *testing.T) {
	mine := newSigner(t).PublicKey()
	plain := line("", mine)
	cert := line("", certify(t, newSigner(t), newSigner(t), nil).PublicKey())
	tests := []struct{ name, line, want, comment string }{
		{"plain", plain, "", ""},
		{"comment", plain + " alice at home", "", "alice at home"},
		{"white space", " \t" + strings.Replace(plain, " ", "  \t", 1) + "\t x\r\n", "", "x"},
		{"all without effect", "restrict,pty,no-pty,agent-forwarding,no-agent-forwarding,Port-Forwarding,no-port-forwarding,x11-forwarding,no-X11-forwarding,user-rc,no-user-rc " + plain, "", ""},
		{"values without effect", `environment="A=b",environment="C=\"d\" e",permitopen="h:1",permitopen="h:2",permitlisten="3",tunnel="0" ` + plain, "", ""},
		{"white space in quotes", `command="internal-sftp   -R",from="10.*" ` + plain + " c d", "", "c d"},
		{"touch", "no-touch-required " + plain, "", ""},
		{"principals", `cert-authority,principals="a,b" ` + plain, "", ""},

		{"nothing", "", "no key", ""},
		{"comment only", "# " + plain, "no key", ""},
		{"unknown option", "root " + plain, `"root" is not known`, ""},
		{"unknown value", `user="bob" ` + plain, `"user=" is not known`, ""},
		{"not without no", "no-restrict " + plain, "not known", ""},
		{"a restriction of tomorrow", "only-on-sundays " + plain, "not known", ""},
		{"without quotes", "from=10.0.0.1 " + plain, "not in quotes", ""},
		{"quote not closed", `from="10.0.0.1 ` + plain, "closing quote", ""},
		{"two quotes", `from="10.0.0.1"x ` + plain, "neither a comma", ""},
		{"empty option", ",restrict " + plain, "not known", ""},
		{"comma at the end", "restrict, " + plain, "not known", ""},
		{"comma and space", `restrict, from="10.*" ` + plain, "not known", ""},
		{"from is empty", `from="" ` + plain, "empty", ""},
		{"from ends in a comma", `from="10.*," ` + plain, "empty pattern", ""},
		{"from twice", `from="10.*",from="*" ` + plain, "twice", ""},
		{"command twice", `command="internal-sftp",command="internal-sftp" ` + plain, "twice", ""},
		{"forced command", `command="/bin/sh" ` + plain, `"/bin/sh" is forced`, ""},
		{"principals without authority", `principals="a" ` + plain, "cert-authority only", ""},
		{"principals with a hole", `cert-authority,principals="a,,b" ` + plain, "empty name", ""},
		{"time", `expiry-time="tomorrow" ` + plain, "is no time", ""},
		{"a 13th month", `expiry-time="20261301" ` + plain, "is no time", ""},
		{"a signed year", `expiry-time="-0261301" ` + plain, "is no time", ""},

		{"certificate", cert, "this is a certificate", ""},
		{"no key", "ssh-ed25519", "no base64", ""},
		{"half a key", plain[:len(plain)-10], "", ""}, // see below
		{"base64", "ssh-ed25519 !!!!", "no base64", ""},
		{"DSA", line("", fakeDSA(t)), "no type of key", ""},
		{"DSA with options", line("restrict", fakeDSA(t)), "no type of key", ""},
		{"RSA too small", line("restrict", fakeRSA(t, 1024)), "1024 bits", ""},
		{"another type", strings.Replace(plain, "ssh-ed25519", "ssh-rsa", 1), "the line says ssh-rsa", ""},
		{"type of tomorrow", "ssh-perfect AAAA", "no type of key", ""},
		{"a private key", "-----BEGIN OPENSSH PRIVATE KEY-----", "neither a key", ""},
		{"two lines", plain + "\n" + plain, "line break", ""},
		{"NUL", plain + " a\x00b", "NUL", ""},
		{"too long", plain + strings.Repeat(" x", 10000), "bytes", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			k, err := users.ParseKey(test.line)
			if test.name == "half a key" {
				if err == nil {
					t.Error("half a key is a key")
				}
				return
			}
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) || k.Public != nil {
					t.Errorf("got %v, want %q", err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if string(k.Public.Marshal()) != string(mine.Marshal()) || k.Comment != test.comment || k.Fingerprint() != ssh.FingerprintSHA256(mine) || k.String() != strings.Trim(test.line, " \t\r\n") {
				t.Errorf("got %+v", k)
			}
		})
	}
	if (users.Key{}).Fingerprint() != "" {
		t.Error("no key has a fingerprint")
	}
}

// If a key is in several lines, one line that allows the login is enough.
func TestSameKeyTwice(t *testing.T) {
	mine := newSigner(t)
	w := newWorld(t, users.User{Name: "alice", Keys: []users.Key{
		key(t, `from="10.*"`, mine.PublicKey()),
		key(t, `from="192.0.2.*",command="internal-sftp -R"`, mine.PublicKey()),
		key(t, "", mine.PublicKey()),
	}}, users.User{Name: "bob", Keys: []users.Key{
		key(t, `from="10.*"`, mine.PublicKey()),
		key(t, `expiry-time="20200101"`, mine.PublicKey()),
	}})
	l, err := w.withKeys("alice", mine)
	w.want(l, err, "")
	if l.Access != users.ReadOnly {
		t.Errorf("got %+v", l)
	}
	l, err = w.withKeys("bob", mine)
	w.want(l, err, "from=")
}

func TestFrom(t *testing.T) {
	tests := []struct{ patterns, in, out string }{
		{"192.0.2.1", "192.0.2.1 ::ffff:192.0.2.1", "192.0.2.10 192.0.2.2 ::1"},
		{"10.0.0.0/8", "10.0.0.0 10.255.255.255", "11.0.0.0 9.255.255.255"},
		{"10.0.0.0/8,!10.1.0.0/16", "10.0.0.1 10.2.0.1", "10.1.0.1 10.1.255.255"},
		{"!10.1.0.0/16,10.0.0.0/8", "10.0.0.1", "10.1.0.1"},
		{"!10.1.0.0/16", "", "10.1.0.1 10.2.0.1"}, // an exception alone allows nothing
		{"*", "10.0.0.1 ::1 fe80::1%eth0", ""},
		{"*,!192.0.2.1", "192.0.2.2", "192.0.2.1 ::ffff:192.0.2.1"},
		{"192.168.?.*", "192.168.1.55", "192.168.10.55"},
		{"2001:DB8::/32,fe80::1", "2001:db8::1 fe80::1%eth0", "2001:db9::1 fe80::2"},
		{"2001:db8::*", "2001:db8::5", "2001:db9::5"},
		{"host.example.org,*.example.com", "", "10.0.0.1 192.0.2.1"},
		{"::ffff:10.0.0.0/104", "10.1.2.3 ::ffff:10.1.2.3", "11.0.0.1"},
		{"*,!::ffff:10.0.0.0/104", "11.0.0.1", "10.1.2.3"},
		{"0.0.0.0/0", "1.2.3.4", "::1"},
	}
	for _, test := range tests {
		ps, err := users.FromAny(test.patterns)
		if err != nil {
			t.Errorf("%s: %v", test.patterns, err)
			continue
		}
		for a := range strings.FieldsSeq(test.in) {
			if !users.FromMatches(ps, netip.MustParseAddr(a)) {
				t.Errorf("%s keeps %s out", test.patterns, a)
			}
		}
		for a := range strings.FieldsSeq(test.out) {
			if users.FromMatches(ps, netip.MustParseAddr(a)) {
				t.Errorf("%s lets %s in", test.patterns, a)
			}
		}
		if users.FromMatches(ps, netip.Addr{}) {
			t.Errorf("%s lets in who has no address", test.patterns)
		}
	}
	for _, bad := range []string{"", ",", "10.0.0.1,", "!", "10.0.0.1 , 10.0.0.2", "10.1.2.3/8", "10.0.0.0/33", "10.0.0", "1.2.3.4.5", "!evil.example.org", "*,!*.example.org", "::1/129"} {
		if _, err := users.FromAny(bad); err == nil {
			t.Errorf("from=%q is accepted", bad)
		}
	}
}

func TestForcedCommands(t *testing.T) {
	tests := []struct {
		s        string
		readOnly bool
		dir      string
	}{
		{"internal-sftp", false, ""},
		{"  internal-sftp  -e ", false, ""},
		{"internal-sftp -R", true, ""},
		{"internal-sftp -f AUTH -l INFO -R", true, ""},
		{"internal-sftp -d /in/%u", false, "/in/alice"},
		{"internal-sftp -d/in", false, "/in"},
		{"internal-sftp -Rd in", true, "/in"},
		{"internal-sftp -eRlINFO -d %d/x/%%", true, "/x/%"},
		{"internal-sftp -d ../../etc", false, "/etc"}, // it stays below the root
		{"internal-sftp -d .", false, "/"},
	}
	for _, test := range tests {
		c, err := users.ParseCommand(test.s, "alice")
		if err != nil {
			t.Errorf("%q: %v", test.s, err)
			continue
		}
		if readOnly, dir := c.Forced(); readOnly != test.readOnly || dir != test.dir {
			t.Errorf("%q: %v, %q", test.s, readOnly, dir)
		}
	}
	for _, bad := range []string{
		"", " ", "/bin/sh", "internal-sftp2", "INTERNAL-SFTP", "/usr/lib/openssh/sftp-server", "internal-sftp; rm -rf /", "internal-sftp -x", "internal-sftp -u 022",
		"internal-sftp -P write", "internal-sftp -p read", "internal-sftp -Q requests", "internal-sftp -d", "internal-sftp -l", "internal-sftp /in", "internal-sftp -", "internal-sftp --",
		`internal-sftp -d "/a b"`, `internal-sftp -d '/a'`, `internal-sftp -d a\b`, "internal-sftp -d %h", "internal-sftp -d %", "internal-sftp\x00", "internal-sftp -d a\x01",
		"scp -t /", "echo internal-sftp",
	} {
		if _, err := users.ParseCommand(bad, "alice"); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestExpiry(t *testing.T) {
	mine := newSigner(t)
	for options, want := range map[string]string{
		`expiry-time="20261122120000Z"`:  "is over",
		`expiry-time="20261122120001Z"`:  "",
		`expiry-time="202611221200Z"`:    "is over",
		`expiry-time="202611221201Z"`:    "",
		`expiry-time="20261122Z"`:        "is over",
		`expiry-time="20261123Z"`:        "",
		`expiry-time="20261120"`:         "is over",
		`expiry-time="20261124"`:         "",
		`expiry-time="99991231"`:         "",
		`expiry-time="19700103"`:         "is over",
		`expiry-time="00010101Z"`:        "!",
		`Expiry-Time="20261120",no-pty`:  "is over",
		`restrict,expiry-time="2026112"`: "!",
	} {
		if want == "!" {
			if _, err := users.ParseKey(line(options, mine.PublicKey())); err == nil {
				t.Errorf("%s is accepted", options)
			}
			continue
		}
		w := newWorld(t, users.User{Name: "alice", Keys: []users.Key{key(t, options, mine.PublicKey())}})
		l, err := w.withKeys("alice", mine)
		w.want(l, err, want)
	}
	// The time is in the time zone of this machine, unless it ends in Z.
	local := `expiry-time="` + now.Add(time.Hour).Local().Format("20060102150405") + `"`
	w := newWorld(t, users.User{Name: "alice", Keys: []users.Key{key(t, local, mine.PublicKey())}})
	l, err := w.withKeys("alice", mine)
	w.want(l, err, "")
	w.options.Now = func() time.Time { return now.Add(time.Hour) }
	l, err = w.withKeys("alice", mine)
	w.want(l, err, "is over")
}
