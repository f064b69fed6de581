package privilege

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestLookUp(t *testing.T) {
	for _, c := range []struct {
		spec     string
		uid, gid int
	}{
		{"4711:4712", 4711, 4712},
		{"4294967294:0", 4294967294, 0},
		{"daemon:4712", 1, 4712}, // the Linux Standard Base fixes the number
		{"4711:daemon", 4711, 1},
	} {
		u, err := LookUp(c.spec)
		if err != nil {
			t.Error(err)
			continue
		}
		if u.UID != c.uid || u.GID != c.gid || len(u.Groups) > 0 || u.Name != c.spec {
			t.Errorf("LookUp(%q) = %+v, want user %d, group %d and no others", c.spec, u, c.uid, c.gid)
		}
	}
}

// A name alone, or a number with a name, yields all groups.
func TestLookUpGroups(t *testing.T) {
	for _, spec := range []string{"nobody", "daemon", "1"} {
		u, err := LookUp(spec)
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("id", "-G", strconv.Itoa(u.UID)).Output()
		if err != nil {
			t.Fatal(err)
		}
		var want []int
		for s := range strings.FieldsSeq(string(out)) {
			n, err := strconv.Atoi(s)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, n)
		}
		if u.GID != want[0] {
			t.Errorf("LookUp(%q) has group %d, id(1) says %d", spec, u.GID, want[0])
		}
		slices.Sort(want)
		if !slices.Equal(u.Groups, want) {
			t.Errorf("LookUp(%q) has groups %v, id(1) says %v", spec, u.Groups, want)
		}
	}
}

func TestLookUpErrors(t *testing.T) {
	for _, c := range []struct{ spec, says string }{
		{"", "NAME, NAME:GROUP or UID:GID"},
		{":", "NAME, NAME:GROUP or UID:GID"},
		{":daemon", "NAME, NAME:GROUP or UID:GID"},
		{"root", "that is root"},
		{"0", "that is root"},
		{"0:1", "that is root"},
		{"00:1", "that is root"},
		{"no such user", "useradd"},
		{"-1:1", "useradd"},
		{"4294967295:1", "useradd"}, // setresuid's "leave as it is"
		{"99999999999999999999:1", "useradd"},
		{"4711", "say 4711:GROUP"},
		{"4711:", "group is missing"},
		{"4711:no such group", "groupadd"},
		{"4711:4294967295", "groupadd"},
		{"4711:1:1", "groupadd"},
	} {
		_, err := LookUp(c.spec)
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), strconv.Quote(c.spec)) {
			t.Errorf("LookUp(%q): %v, want %q in it", c.spec, err, c.says)
		}
	}
}

// No spec yields root, or the number that means "leave unchanged".
func FuzzLookUp(f *testing.F) {
	for _, s := range []string{"nobody", "daemon:daemon", "0:0", "+1:1", "1:-1", "4294967295:4294967295", "\x00:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		u, err := LookUp(spec)
		if err != nil {
			return
		}
		if u.UID <= 0 || u.UID >= 1<<32-1 || u.GID < 0 || u.GID >= 1<<32-1 {
			t.Errorf("LookUp(%q) = %+v", spec, u)
		}
	})
}

// A directory that root has created for a process then belongs to the user that the process
// becomes. The target of a link in it, or a file with a second name, does not.
func TestGive(t *testing.T) {
	needRoot(t)
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	if err := errors.Join(os.MkdirAll(dir+"/sub", 0o700), os.WriteFile(dir+"/sub/own", nil, 0o600), os.WriteFile(outside, nil, 0o600),
		os.Symlink(outside, dir+"/link"), os.Link(outside, dir+"/second")); err != nil {
		t.Fatal(err)
	}
	if err := Give(dir, User{Name: "u", UID: 4711, GID: 4712}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint32{dir: 4711, dir + "/sub": 4711, dir + "/sub/own": 4711, outside: 0, dir + "/second": 0} {
		var st syscall.Stat_t
		if err := syscall.Stat(name, &st); err != nil || st.Uid != want {
			t.Errorf("%s belongs to %d, want %d; %v", name, st.Uid, want, err)
		}
	}
	if err := Give(dir, User{Name: "v", UID: 4713, GID: 4713}); err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "chown -R 4713:4713") {
		t.Errorf("a directory of another user: %v", err)
	}
}
