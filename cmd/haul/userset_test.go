//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/users"
)

// A user is changed step by step, and each step says what holds now.
func TestUserSet(t *testing.T) {
	key, other := keyLine(t), keyLine(t)
	keyFile := filepath.Join(t.TempDir(), "id.pub")
	writeFile(t, keyFile, other+" alice@laptop\n")
	file := usersFile(t, "# ours\nlimit 1MiB\n\nuser alice\n  # since May\n  key "+key+" old\n  root x\n")
	parsed, err := users.ParseKey(other)
	if err != nil {
		t.Fatal(err)
	}
	print := parsed.Fingerprint()
	for _, test := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"show", "alice"}, 0, []string{"user      alice\n", "root      x\n", "limit     1MiB/s\n", "password  none\n", " old\n"}},
		{[]string{"set", "alice", "--access", "read-only", "--limit", "2M", "--from", "192.0.2.0/24,2001:db8::/32"}, 0,
			[]string{"access    read-only\n", "limit     2MiB/s\n", "from      192.0.2.0/24 2001:db8::/32\n"}},
		{[]string{"set", "alice", "--root", "", "--require", "key+password", "--from", "", "--limit", "0"}, 0, []string{"limit     1MiB/s\n", "root      -\n", "require   key+password\n", "from      -\n"}},
		{[]string{"set", "alice"}, exitUsage, []string{"nothing to change"}},
		{[]string{"set", "alice", "--access", "some"}, exitUsage, []string{"--access", "read-only"}},
		{[]string{"set", "alice", "--require", "some"}, exitUsage, []string{"--require", "key+password"}},
		{[]string{"set", "alice", "--root", "../x"}, exitFailed, []string{".."}},
		{[]string{"set", "bob", "--root", "x"}, exitFailed, []string{"no user bob"}},
		{[]string{"disable", "alice"}, 0, []string{"disabled alice in " + file}},
		{[]string{"show", "alice"}, 0, []string{"login     disabled\n"}},
		{[]string{"enable", "alice"}, 0, []string{"enabled alice in " + file}},
		{[]string{"disable", "bob"}, exitFailed, []string{"no user bob"}},
		{[]string{"key", "add", "alice", keyFile}, 0, []string{"added ssh-ed25519 " + print + " alice@laptop to alice"}},
		{[]string{"key", "add", "alice", other}, exitFailed, []string{"already"}},
		{[]string{"key", "add", "alice", "none.pub"}, exitLocal, []string{"none.pub"}},
		{[]string{"key", "list", "alice"}, 0, []string{" old\n", print + " alice@laptop\n"}},
		{[]string{"key", "remove", "alice", "nothing"}, exitFailed, []string{"no key", "haul user key list alice"}},
		{[]string{"key", "remove", "alice", "old"}, 0, []string{"removed ssh-ed25519"}},
		{[]string{"key", "remove", "alice", print}, 0, []string{"removed ssh-ed25519 " + print}},
		{[]string{"key", "list", "alice"}, exitFailed, []string{"no keys"}},
		{[]string{"show", "bob"}, exitFailed, []string{`no user "bob"`}},
	} {
		args := append([]string{"user"}, append(test.args, "--users", file)...)
		code, out, errs := haul(t, args...)
		for _, want := range test.says {
			if code != test.code || !strings.Contains(out+errs, want) {
				t.Errorf("%q: exit code %d, %s%s; want %d and %q", args, code, out, errs, test.code, want)
			}
		}
	}
	wantFile(t, file, "# ours\nlimit 1MiB\n\nuser alice\n  # since May\n  access read-only\n  require key+password\n")
}

// Of a command that does not exist the command is what is wrong, whatever flags follow,
// and the nearest that exists is named.
func TestUnknownCommands(t *testing.T) {
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"user", "shwo", "x", "--users", "f"}, `there is no command "haul user shwo"; did you mean "haul user show"?`},
		{[]string{"user", "key", "ad", "x"}, `there is no command "haul user key ad"; did you mean "haul user key add"?`},
		{[]string{"user", "unheard-of", "--users", "f"}, `there is no command "haul user unheard-of"; "haul user --help" lists all`},
		{[]string{"srve", ".", "--http", ":0"}, `there is no command "haul srve"; did you mean "haul serve"?`},
		{[]string{"map", "tset"}, `did you mean "haul map test"?`},
		{[]string{"user", "--users", "f"}, `there is no flag --users in "haul user"`},
	} {
		if code, _, errs := haul(t, test.args...); code != exitUsage || !strings.Contains(errs, test.says) {
			t.Errorf("%q: exit code %d, %s", test.args, code, errs)
		}
	}
}
