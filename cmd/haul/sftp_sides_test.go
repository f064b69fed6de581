package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
)

// A fullTree has no space left for new files or, with late, for data.
type fullTree struct {
	store.Tree
	late bool
}

func (f fullTree) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	u, err := f.Tree.Create(ctx, name, c)
	if err != nil || f.late {
		return fullUpload{u}, err
	}
	_ = u.Close()
	return nil, store.ErrNoSpace
}

func (f fullTree) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	if !f.late && (a.Write || a.Append) {
		return nil, store.ErrNoSpace
	}
	h, err := f.Tree.OpenFile(ctx, name, a)
	return fullHandle{h}, err
}

type fullUpload struct{ store.Upload }

func (fullUpload) WriteAt([]byte, int64) (int, error) { return 0, store.ErrNoSpace }

type fullHandle struct{ store.Handle }

func (fullHandle) WriteAt([]byte, int64) (int, error) { return 0, store.ErrNoSpace }

// A wordlessTree is a server whose disk is full and which, like OpenSSH's, reports just a failure
// when data is written.
type wordlessTree struct {
	store.Tree
	refused *atomic.Int64
}

func (f wordlessTree) Space(context.Context, string) (store.Space, error) {
	return store.Space{Total: 1 << 30, BlockSize: 4096, Files: 1000, AvailableFiles: 10}, nil
}

func (f wordlessTree) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	h, err := f.Tree.OpenFile(ctx, name, a)
	return wordlessHandle{h, f.refused}, err
}

func (f wordlessTree) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	u, err := f.Tree.Create(ctx, name, c)
	return wordlessUpload{u, f.refused}, err
}

type wordlessUpload struct {
	store.Upload
	refused *atomic.Int64
}

func (u wordlessUpload) WriteAt([]byte, int64) (int, error) {
	u.refused.Add(1)
	return 0, errors.New("no reason given")
}

type wordlessHandle struct {
	store.Handle
	refused *atomic.Int64
}

func (h wordlessHandle) WriteAt([]byte, int64) (int, error) {
	h.refused.Add(1)
	return 0, errors.New("no reason given")
}

// If the server's disk is full, put says so, and starts no further files.
func TestPutToFullDisk(t *testing.T) {
	mine := filepath.Join(t.TempDir(), "mine")
	const files = 500
	for i := range files {
		writeFile(t, filepath.Join(mine, fmt.Sprint(i)), "content")
	}
	for _, flags := range []string{"", "--continue", "--in-place"} {
		var refused atomic.Int64
		l := startLabWith(t, labOptions{tree: func(t store.Tree) store.Tree { return wordlessTree{t, &refused} }}, nil)
		args := append([]string{"put", "-r"}, append(strings.Fields(flags), mine, l.url("/there"))...)
		code, _, msg := l.haul(args...)
		if code != exitRefused || !strings.Contains(msg, "the server has no space left on its disk") || strings.Contains(msg, "status 4") {
			t.Errorf("haul %q: exit code %d, says %s", args, code, msg)
		}
		if n := strings.Count(msg, "no space left"); n != 1 {
			t.Errorf("haul %q: says so %d times: %s", args, n, msg)
		}
		if n := refused.Load(); n > files/2 {
			t.Errorf("haul %q: %d of %d files were tried", args, n, files)
		}
	}
}

// A name with a colon is on a server, unless it begins with ./. If such a local file exists, the
// error suggests it.
func TestPutNameWithColon(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no file can have a colon in its name")
	}
	l := startLab(t, nil)
	t.Chdir(t.TempDir())
	writeFile(t, "co:lon", "c")
	if code, _, msg := l.haul("put", "co:lon", "lab:"); code != exitUsage || !strings.Contains(msg, "./co:lon") {
		t.Errorf("exit code %d, says %s", code, msg)
	}
	if code, _, msg := l.haul("put", "./co:lon", "lab:"); code != 0 {
		t.Errorf("exit code %d, says %s", code, msg)
	}
}

// Verification needs the right to read, and the message says so.
func TestSFTPVerifyUploadOnly(t *testing.T) {
	l := startLabWith(t, labOptions{account: func(a *sftp.Account) { a.Access = users.UploadOnly }}, nil)
	mine := filepath.Join(t.TempDir(), "mine")
	writeFile(t, mine, "mine")
	code, _, msg := l.haul("put", "--verify", mine, "lab:up")
	if code != exitRefused || !strings.Contains(msg, "to verify it, it has to be read: open up: ") || strings.Contains(msg, ".haul-") {
		t.Errorf("exit code %d, says %s", code, msg)
	}
}

// The error for a missing argument names it.
func TestMissingArguments(t *testing.T) {
	for args, want := range map[string]string{
		"user add":      "add: NAME is missing; usage: haul user add NAME",
		"user add a b":  `add: unexpected argument "b"; usage: haul user add NAME`,
		"mv lab:a":      "mv: TO is missing; usage: haul mv FROM TO",
		"ls":            "ls: LOCATION is missing; usage: haul ls LOCATION...",
		"put here":      "put: TARGET is missing; usage: haul put LOCAL... TARGET",
		"user password": "password: NAME is missing",
	} {
		code, _, msg := haul(t, strings.Fields(args)...)
		if code != exitUsage || !strings.Contains(msg, want) {
			t.Errorf("haul %s: exit code %d, says %s, want %q", args, code, msg, want)
		}
	}
}

// A pipe is refused on either side, and the error names the side.
func TestSFTPCopyOfAPipe(t *testing.T) {
	l := startLab(t, nil)
	makePipe(t, filepath.Join(l.dir, "pipe"))
	mine := filepath.Join(t.TempDir(), "mine")
	makePipe(t, mine)
	if code, _, msg := l.haul("get", "lab:pipe", t.TempDir()); code != exitRefused {
		t.Errorf("get of a pipe: exit code %d, says %s", code, msg)
	}
	if code, _, msg := l.haul("put", mine, "lab:"); code != exitLocal {
		t.Errorf("put of a pipe: exit code %d, says %s", code, msg)
	}
}

// A full disk on the server counts as the server's refusal, in each phase of an upload. The message
// has the name that the user knows.
func TestSFTPServerFull(t *testing.T) {
	mine := filepath.Join(t.TempDir(), "mine")
	writeFile(t, mine, strings.Repeat("m", 2<<20))
	for _, late := range []bool{false, true} {
		l := startLabWith(t, labOptions{tree: func(t store.Tree) store.Tree { return fullTree{t, late} }}, nil)
		for _, flags := range []string{"", "--continue", "--in-place"} {
			args := append([]string{"put"}, append(strings.Fields(flags), mine, l.url("/there"))...)
			code, _, msg := l.haul(args...)
			if code != exitRefused || !strings.Contains(msg, " /there: ") || strings.Contains(msg, ".upload") || !strings.Contains(strings.ToLower(msg), "no space left") {
				t.Errorf("haul %q, full late %v: exit code %d, says %s", args, late, code, msg)
			}
			if strings.Contains(msg, "server: server") {
				t.Errorf("haul %q stammers: %s", args, msg)
			}
		}
	}
}
