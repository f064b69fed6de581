package openssh

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Quoted words are split into the same words again.
func FuzzSplitArgs(f *testing.F) {
	for _, s := range []string{"", `a "b c" 'd' \" # e`, `"`, `\`, "a\tb", `a\ b`, `"a\ b"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		args, err := splitArgs(s)
		if err != nil {
			return
		}
		var quoted []string
		for _, a := range args {
			quoted = append(quoted, `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(a)+`"`)
		}
		again, err := splitArgs(strings.Join(quoted, " "))
		if err != nil || !slices.Equal(again, args) {
			t.Errorf("%q is %q, and again %q, %v", s, args, again, err)
		}
		if keyword, rest := splitLine(s); keyword == "" && rest != "" && !strings.HasPrefix(strings.TrimLeft(s, space), `"`) && !strings.HasPrefix(strings.TrimLeft(s, space), "=") {
			t.Errorf("%q has arguments %q of nothing", s, rest)
		}
	})
}

// Every configuration yields a usable destination or an error.
func FuzzConfig(f *testing.F) {
	for _, s := range []string{
		"", "Host a\nPort 1\n", "Match host a user b\nIdentityFile %d/x\n", "ProxyJump a,b\n", "ProxyCommand %h\n", "Ciphers +x\n", "Include x*\n",
		"Match final all\nHostName %h.x\n", "IgnoreUnknown *\nX y\n", "CanonicalizeHostname yes\nCanonicalDomains x\n", "ConnectTimeout 1w\nRekeyLimit 1G 1h\n",
		"UserKnownHostsFile none\nIdentityAgent $X\n", "Match localnetwork 1.2.3.4/5\n", "Port=\"22\"", "Match !all\n", "RefuseConnection x\n",
	} {
		f.Add([]byte(s), "u@a:7")
	}
	sys := testSystem(f)
	f.Fuzz(func(t *testing.T, text []byte, target string) {
		if strings.Contains(strings.ToLower(string(text)), "include") {
			return // it could name any file of this machine
		}
		to, err := ParseTarget(target)
		if err != nil {
			return
		}
		r := &reader{ctx: t.Context(), sys: sys, o: Overrides{NoExec: true, File: "none"}, host: to.Host, original: to.Host, values: map[string][]string{}}
		if r.commandLine(to) != nil || r.readText(text, place{file: "f", user: true, used: true}, 0) != nil {
			return
		}
		host, err := r.hostName()
		if err != nil {
			return
		}
		d, err := r.destination(to, host, nil)
		if err != nil {
			return
		}
		switch {
		case d.Port < 1 || d.Port > 65535, d.User == "", d.ConnectTimeout < 0, d.NumberOfPasswordPrompts < 0:
			t.Errorf("%+v", d)
		case len(d.Ciphers) == 0, len(d.MACs) == 0, len(d.KexAlgorithms) == 0, len(d.HostKeyAlgorithms) == 0, len(d.PubkeyAlgorithms) == 0:
			t.Errorf("no algorithms: %+v", d)
		case d.Jump != nil && d.ProxyCommand != "":
			t.Errorf("two ways: %+v", d)
		case to.User != "" && d.User != to.User, to.Port != 0 && d.Port != to.Port:
			t.Errorf("%s for %q", d.login(), target)
		}
	})
}

// An accepted target survives printing and parsing.
func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"h", "u@h:1", "[::1]:2", "ssh://u%40@h:3/", "fe80::1%x", "a@b@c", "[0:1]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		target, err := ParseTarget(s)
		if err != nil {
			return
		}
		if strings.ContainsAny(target.Host, "\n\x00 ;`$") || target.Host[0] == '-' || strings.ContainsAny(target.User, "\n\x00;`") || strings.HasPrefix(target.User, "-") {
			t.Errorf("%q is %+v", s, target)
		}
		if target.Port == 22 {
			target.Port = 0 // String omits it
		}
		if again, err := ParseTarget(target.String()); err == nil && again != target && !strings.HasPrefix(strings.ToLower(target.String()), "s") {
			t.Errorf("%q is %+v, and again %+v", s, target, again)
		}
	})
}

// No known_hosts file causes a panic, yields a key without a line number, or hides a revoked key.
func FuzzKnownHosts(f *testing.F) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ"
	for _, s := range []string{"", "h " + key, "*,!x " + key, "@revoked * " + key, "@cert-authority [h]:7 " + key, "|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg= " + key, "# x\n\n\r\n"} {
		f.Add([]byte(s), "h")
	}
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		var k known
		var revoked []ssh.PublicKey
		err := scanKnown(bytes.NewReader(text), "f", func(line []byte, file string, n int) {
			k.line(line, file, n, name)
			if l, ok := splitKnown(string(line)); ok && l.marker == markRevoked {
				if key, err := l.parse(); err == nil {
					revoked = append(revoked, key)
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Count(text, []byte("\n")) + 1
		for _, keys := range [][]KnownKey{k.keys, k.authorities} {
			for _, key := range keys {
				if key.Key == nil || key.Line < 1 || key.Line > lines {
					t.Errorf("%+v", key)
				}
				_ = key.String()
			}
		}
		if n := len(revoked); n > bytes.Count(text, []byte("@revoked")) {
			t.Errorf("%d are revoked", n)
		}
		for _, key := range revoked {
			found := false
			_ = scanKnown(bytes.NewReader(text), "f", func(line []byte, _ string, _ int) {
				found = found || revokedBy(line, []ssh.PublicKey{key}) != nil
			})
			if !found {
				t.Errorf("%s passes unseen", ssh.FingerprintSHA256(key))
			}
		}
		_ = k.order(defaultHostKeyAlgorithms)
	})
}

// Key files may come from an attacker.
func FuzzPublicPart(f *testing.F) {
	f.Add([]byte("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if key := publicPart(text); key != nil && key.Type() == "" {
			t.Error("a key without a type")
		}
	})
}

// printable makes text printable, and does not change printable text.
func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b[0m\u202e\xff\r\n")
	f.Fuzz(func(t *testing.T, s string) {
		p := printable(s)
		for _, r := range p {
			if isControl(r) && r != '\n' && r != '\t' {
				t.Errorf("%q is %q", s, p)
			}
		}
		if len(p) < maxServerText && printable(p) != p {
			t.Errorf("%q is %q, and again %q", s, p, printable(p))
		}
	})
}
