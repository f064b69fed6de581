package logins

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/users"
)

// usersOf returns sessions of a users file with these users, whose password is "abracadabra", and
// a function that logs one in.
func usersOf(t *testing.T, names ...string) (*Sessions, func(name string) *users.Login) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir()) // for TestReads
	if err != nil {
		t.Fatal(err)
	}
	s := &Sessions{File: filepath.Join(dir, "users")}
	write(t, s.File, names...)
	if s.Users, err = OpenUsersFile(s.File, os.Getuid()); err != nil {
		t.Fatal(err)
	}
	return s, func(name string) *users.Login {
		t.Helper()
		l, err := s.Users.Password(t.Context(), users.Attempt{Now: time.Now(), Peer: netip.MustParseAddr("192.0.2.1")}, name, []byte("abracadabra"))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

func write(t *testing.T, file string, names ...string) {
	t.Helper()
	text := ""
	for _, name := range names {
		text += "user " + name + "\n  password $2a$04$oRG./awk3RcT3XocKXGt8erHrwJ2jq6k73J1pYqemhuXB3N7.JcVK\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// When a user is removed from the file, the sessions of that user end with the reason, and no
// further session of the user begins. Sessions of other users, and sessions that are over already,
// are not ended.
func TestEndRevoked(t *testing.T) {
	s, login := usersOf(t, "alice", "bob")
	alice, bob := login("alice"), login("bob")
	begin := func(l *users.Login, peer string) (context.Context, func()) {
		t.Helper()
		life, leave, err := s.Enter(l, peer)
		if err != nil {
			t.Fatal(err)
		}
		return life, leave
	}
	_, left := begin(alice, "left")
	revoked, leave := begin(alice, "revoked")
	defer leave()
	kept, leaveBob := begin(bob, "kept")
	left()
	write(t, s.File, "bob")
	if changed, err := s.Users.Reload(); !changed || err != nil {
		t.Fatalf("Reload = %v, %v", changed, err)
	}
	var ended []string
	s.EndRevoked(func(g *Session, why string) { ended = append(ended, g.Peer+": "+why) })
	if len(ended) != 1 || !strings.HasPrefix(ended[0], "revoked: ") {
		t.Errorf("ended: %q", ended)
	}
	if cause := context.Cause(revoked); cause == nil || "revoked: "+cause.Error() != ended[0] {
		t.Errorf("the session has ended by %v", cause)
	}
	if kept.Err() != nil {
		t.Error("the session of another user has ended")
	}
	if leaveBob(); context.Cause(kept) != context.Canceled {
		t.Errorf("a session that was left has ended by %v", context.Cause(kept))
	}
	if _, _, err := s.Enter(alice, "late"); err == nil {
		t.Error("a user who is gone may begin a session")
	}
	if len(s.live) != 1 { // that of revoked, which has not left yet
		t.Errorf("%d sessions are kept", len(s.live))
	}
}

// A missing users file is reported with the command that makes it.
func TestOpenUsersFileMissing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	_, err := OpenUsersFile(file, os.Getuid())
	if !errors.Is(err, os.ErrNotExist) || !errors.Is(err, failure.Local) || !strings.Contains(err.Error(), `"haul user add NAME --users `+file) {
		t.Errorf("OpenUsersFile: %v", err)
	}
}

// Reads returns the directory of the file, and the one that a symbolic link leads to.
func TestReads(t *testing.T) {
	s, _ := usersOf(t, "alice")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(s.File, link); err != nil {
		t.Skip(err)
	}
	linked := &Sessions{File: link}
	var err error
	if linked.Users, err = OpenUsersFile(link, os.Getuid()); err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Dir(s.File), filepath.Dir(link)}
	slices.Sort(want)
	if got := linked.Reads(); !slices.Equal(got, want) {
		t.Errorf("Reads = %q, want %q", got, want)
	}
}
