//go:build unix

package main

import (
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/users"
)

// Text that strangers and users choose cannot forge a line or control a terminal.
func TestServeSFTPLogHostile(t *testing.T) {
	t.Parallel() // it waits most of the time
	hostile := []string{"a\nhaul: fake", "\x1b[2Jescape", "\x9bcsi", "\xff\xfe", "bidi\u202e", strings.Repeat("long", 50)}
	invalid := []string{"nul\x00"} // no file can have these names
	for _, format := range []string{"text", "json"} {
		s := startSFTP(t, childOptions{}, servedDir(t, nil), "--log-format", format)
		f := s.files(s.once())
		for _, name := range hostile {
			f.wantWrite(name, "x")
			f.want("symlink", f.Symlink(t.Context(), name, name+"l"))
			f.want("remove", f.Remove(t.Context(), name))
		}
		for _, name := range invalid {
			if err := f.write(name, "x"); err == nil {
				t.Errorf("wrote %q", name)
			}
		}
		f.Close()
		for _, name := range hostile[:2] { // penalties would prevent further attempts
			s.wantNoLogin(s.as(name, ssh.Password("wrong")))
		}
		s.wantNoLogin(s.as(strings.Repeat("u", 10_000)))
		said := s.stop()
		for _, r := range said {
			if r != '\n' && (r < ' ' || r == '\ufffd' || r == 0x9b || r == 0x7f || r == '\u202e') {
				t.Fatalf("%s: the log has the character %U", format, r)
			}
		}
		if strings.Contains(said, "\nhaul: fake") || strings.Contains(said, strings.Repeat("u", 200)) {
			t.Errorf("%s: the log has a line that was forged, or a long name", format)
		}
		if format == "json" {
			jsonLines(t, said)
		}
	}
}

// A client that connects and disconnects repeatedly is refused, and does not fill the log: its
// connections are only counted.
func TestServeSFTPTurnedAway(t *testing.T) {
	s := startSFTP(t, childOptions{}, t.TempDir(), "--metrics", "127.0.0.1:0")
	const knocks = 400
	for range knocks {
		c, err := net.Dial("tcp", s.at)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.(*net.TCPConn).CloseWrite()
		var b [1 << 10]byte
		for err == nil { // until the server has closed it too
			_, err = c.Read(b[:])
		}
		c.Close()
	}
	_, page := s.scrape("/metrics")
	code, _, msg := haul(t, "ls", "--batch", "-F", "none", "sftp://"+s.at)
	if code != exitRefused || !strings.Contains(msg, "Not allowed at this time") {
		t.Errorf("haul ls: exit code %d, says %q", code, msg)
	}
	said := s.stop()
	turned := -1 // do not count the connection of haul ls
	lines := 0
	for _, m := range regexp.MustCompile(`msg="sftp: connections turned away" cause=.* connections=(\d+) last=127`).FindAllStringSubmatch(said, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		turned += n
		lines++
	}
	let := strings.Count(said, `msg="sftp login" result=none`)
	if turned+let != knocks || turned < knocks/2 || !strings.Contains(said, "penalties for earlier failures") || !strings.Contains(said, `cause="connections without a login"`) {
		t.Errorf("%d came, %d were let in, and %d turned away", knocks, let, turned)
	}
	if lines > let {
		t.Errorf("%d lines are about refused clients", lines)
	}
	if !strings.Contains(page, `haul_refused_total{protocol="sftp",reason="rate"} `+strconv.Itoa(turned)+"\n") {
		t.Errorf("the metrics do not have %d refused", turned)
	}
}

// After several wrong passwords, no password is checked for a time that the log states, unless the
// network is exempt. Users with a key still get in.
func TestServeSFTPGuesses(t *testing.T) {
	login, key := newLogin(t)
	hash, err := users.HashPassword([]byte("a password"))
	if err != nil {
		t.Fatal(err)
	}
	file := usersFile(t, "user haul\n  password "+hash.Encoded()+"\n  key "+key+"\n")
	for flag, out := range map[string]bool{"": true, "--sftp-exempt=127.0.0.0/8": false} {
		args := []string{servedDir(t, nil), "--users", file}
		if flag != "" {
			args = append(args, flag)
		}
		s := startSFTP(t, childOptions{}, args...)
		for range 8 {
			s.wantNoLogin(s.as("haul", ssh.Password("guess")))
		}
		if out {
			s.wantNoLogin(s.as("haul", ssh.Password("a password")))
			s.await("sftp: locked out", `cause="wrong passwords"`, "network=127.0.0.1/32 until=20", "passwords (keys still work)")
			s.await("result=none", "passwords refused: wrong passwords before")
		} else {
			s.login(s.as("haul", ssh.Password("a password")))
		}
		s.login(s.as("haul", login))
		s.stop()
	}
}

// One address may have as many connections as the flag says.
func TestServeSFTPConnsPerSource(t *testing.T) {
	s := startSFTP(t, childOptions{}, servedDir(t, nil), "--sftp-conns-per-source", "2")
	s.login(s.once())
	s.login(s.once())
	s.wantNoLogin(s.once())
	s.await("connections turned away", "too many connections of this source")
	s.stop()
}
