package sftp

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/users"
)

// testTime is long before any test runs.
var testTime = time.Unix(1_000_000_000, 0)

func hideUploads(_ *Server, a *Account) { a.Hidden = true }

// A hidden upload is not visible before it is closed, and is complete then.
func TestHidden(t *testing.T) {
	d := newDirectServer(t, hideUploads)
	p := d.session(d.connect())
	p.put("old", "old")
	other := d.account
	d.account = &Account{User: "bob", Tree: other.Tree}
	q := d.session(d.connect())
	for _, flags := range []wire.OpenFlags{openAnew, openInsert | wire.OpenExclusive} {
		name := "new"
		if flags == openAnew {
			name = "old"
		}
		h := p.open(name, flags)
		p.write(h, 0, "new content")
		if name == "old" {
			q.wantFile("old", "old")
		} else {
			q.wantNone("new")
		}
		p.write(h, 4, "CONTENT")
		p.want(wire.OK, wire.AppendFsync(nil, p.n(), h))
		if _, status := p.read(h, 0, 3); status != wire.PermissionDenied {
			t.Errorf("READ: %v", status)
		}
		if r := p.ask(wire.AppendFstatVFS(nil, p.n(), h)); r.Type != wire.TypeExtendedReply {
			t.Errorf("fstatvfs: %v %v", r.Type, r.Status)
		}
		p.close(h)
		q.wantFile(name, "new CONTENT")
	}
	if entries, _ := q.list("/"); len(entries) != 4 {
		t.Errorf("%d entries", len(entries))
	}
}

// A hidden upload has its mode and its times as soon as it has its name, so that a private file
// is never public.
func TestHiddenNeverWider(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, access := range []users.Access{users.Full, users.UploadOnly} {
		tree := &commitTree{Tree: localdir.New(root)}
		p := newTestSession(t, func(_ *Server, a *Account) { a.Hidden, a.Tree, a.Access = true, tree, access })
		name := fmt.Sprint("file", access)
		h := p.open(name, openAnew)
		var a wire.Attrs
		a.SetMode(0o600)
		a.SetTimes(testTime, testTime)
		p.want(wire.OK, wire.AppendFsetstat(nil, p.n(), h, a))
		p.close(h)
		if fi := tree.first; fi == nil || runtime.GOOS != "windows" && fi.Mode() != 0o600 || !fi.ModTime().Equal(testTime) {
			t.Errorf("%v: at first the file is %v", access, fi)
		}
		if tree.changes != 0 {
			t.Errorf("%v: it is changed %d times more", access, tree.changes)
		}
	}
}

// A commitTree looks at files as soon as they have their names, and counts changes by name.
type commitTree struct {
	store.Tree
	first   fs.FileInfo
	changes int
}

func (c *commitTree) Create(ctx context.Context, name string, o store.Create) (store.Upload, error) {
	u, err := c.Tree.Create(ctx, name, o)
	if err != nil {
		return nil, err
	}
	return commitUpload{u, c, name}, nil
}

func (c *commitTree) SetAttr(ctx context.Context, name string, a store.Attr, follow bool) error {
	c.changes++
	return c.Tree.SetAttr(ctx, name, a, follow)
}

type commitUpload struct {
	store.Upload
	tree *commitTree
	name string
}

func (u commitUpload) Unwrap() any { return u.Upload }

func (u commitUpload) Commit() error {
	err := u.Upload.Commit()
	if err == nil {
		u.tree.first, err = u.tree.Stat(context.Background(), u.name)
	}
	return err
}

// An upload with a failed write is never published, even if its client ignores the error and
// closes it, or truncates and renames it.
func TestHiddenBroken(t *testing.T) {
	d := newDirectServer(t, func(_ *Server, a *Account) { a.Hidden, a.Tree = true, store.Mem(4<<10) })
	p := d.session(d.connect())
	p.put("old", "old")
	for _, renames := range []bool{false, true} {
		h := p.open("old", openAnew)
		p.write(h, 0, "new")
		p.want(wire.Failure, wire.AppendWrite(nil, p.n(), h, 3, make([]byte, 8<<10)))
		if renames {
			p.want(wire.Failure, wire.AppendPosixRename(nil, p.n(), "old", "other"))
		}
		p.want(wire.Failure, wire.AppendClose(nil, p.n(), h))
		p.wantFile("old", "old")
		p.wantNone("other")
	}
	p.put("new", "there is room")
	p.wantFile("new", "there is room")
}

// If a peer dies, nothing remains of the files that it had not closed.
func TestHiddenAbandoned(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var ended []*Transfer
	d := newDirectServer(t, func(s *Server, a *Account) {
		a.Hidden, a.Tree = true, localdir.New(root)
		s.Ended = func(t *Transfer) { ended = append(ended, t) }
	})
	c := d.connect()
	p := d.session(c)
	p.put("old", "old")
	for _, name := range []string{"old", "new"} {
		h := p.open(name, openAnew)
		p.write(h, 0, "half of")
	}
	p.hangUp(c)
	q := d.session(d.connect())
	q.wantFile("old", "old")
	q.wantNone("new")
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if len(ended) < 3 || ended[1].Err != ErrAbandoned || ended[2].Err != ErrAbandoned || !ended[1].Hidden {
		t.Errorf("reported %v", ended)
	}
}

// The published file has the attributes that clients set before they close it, by handle or by
// name, and clients see them as set before.
func TestHiddenAttributes(t *testing.T) {
	set := func(f func(a *wire.Attrs)) (a wire.Attrs) {
		f(&a)
		return a
	}
	times := set(func(a *wire.Attrs) { a.SetTimes(testTime.Add(time.Hour), testTime) })
	mode := set(func(a *wire.Attrs) { a.SetMode(0o600) })
	size := set(func(a *wire.Attrs) { a.SetSize(5) })
	ways := map[string]func(p *sftpPeer, h string, a wire.Attrs){
		"FSETSTAT": func(p *sftpPeer, h string, a wire.Attrs) { // OpenSSH's put -p
			p.want(wire.OK, wire.AppendFsetstat(nil, p.n(), h, a))
		},
		"SETSTAT": func(p *sftpPeer, _ string, a wire.Attrs) { // sshfs
			p.want(wire.OK, wire.AppendSetstat(nil, p.n(), "/dir/../file", a))
		},
		"lsetstat": func(p *sftpPeer, _ string, a wire.Attrs) {
			if !a.Has(wire.AttrSize) {
				p.want(wire.OK, wire.AppendLsetstat(nil, p.n(), "file", a))
			} else {
				p.want(wire.OK, wire.AppendSetstat(nil, p.n(), "file", a))
			}
		},
	}
	for way, change := range ways {
		for _, exists := range []bool{false, true} {
			p := newTestSession(t, hideUploads)
			if exists {
				p.put("file", "what was there before")
			}
			h := p.open("file", openAnew)
			p.write(h, 0, "0123456789")
			if a := p.stat("file"); a.Size != 10 || a.Mode.Type() != wire.ModeRegular {
				t.Errorf("%s: while it is written STAT says %+v", way, a)
			}
			for _, a := range []wire.Attrs{times, mode, size} {
				change(p, h, a)
			}
			check := func(when string, a wire.Attrs) {
				t.Helper()
				if a.Size != 5 || a.Mode != wire.ModeRegular|0o600 || !a.Modified().Equal(testTime) || !a.Accessed().Equal(testTime.Add(time.Hour)) {
					t.Errorf("%s, %s: %+v", way, when, a)
				}
			}
			check("open", p.attrs(wire.AppendFstat(nil, p.n(), h)))
			check("open", p.attrs(wire.AppendLstat(nil, p.n(), "file")))
			p.close(h)
			check("closed", p.stat("file"))
			p.wantFile("file", "01234")
			// rclone sends this.
			p.want(wire.OK, wire.AppendSetstat(nil, p.n(), "file", set(func(a *wire.Attrs) { a.SetTimes(testTime, testTime) })))
			if a := p.stat("file"); !a.Accessed().Equal(testTime) {
				t.Errorf("%s, after: %+v", way, a)
			}
		}
	}
}

// Several channels, of several connections, may write to one upload.
func TestHiddenSessions(t *testing.T) {
	d := newDirectServer(t, hideUploads)
	c := d.connect()
	sessions := []*sftpPeer{d.session(c), d.session(c), d.session(d.connect())}
	data := testBytes(3 * 100_000)
	for _, flags := range []wire.OpenFlags{wire.OpenWrite, openInsert} {
		creator := sessions[0].open("file", openAnew)
		var wg sync.WaitGroup
		for i, p := range sessions {
			wg.Go(func() {
				h := creator
				if i > 0 {
					h = p.open("file", flags)
				}
				for off := i * 100_000; off < (i+1)*100_000; off += 10_000 {
					p.write(h, int64(off), data[off:off+10_000])
				}
				if i > 0 {
					p.close(h)
				}
			})
		}
		wg.Wait()
		sessions[0].close(creator)
		sessions[1].wantFile("file", data)
		sessions[0].want(wire.OK, wire.AppendRemove(nil, sessions[0].n(), "file"))
	}

	// An upload belongs to the session that created it. After that session has closed it, writes
	// of others have no effect; if that session dies, the upload is discarded.
	p, q := sessions[0], sessions[1]
	creator, joined := p.open("file", openAnew), q.open("file", wire.OpenWrite)
	q.write(joined, 0, "from q")
	p.close(creator)
	q.want(wire.Failure, wire.AppendWrite(nil, q.n(), joined, 0, []byte("late")))
	q.close(joined)
	p.wantFile("file", "from q")

	// If the creating session dies, the next one takes over.
	for _, closes := range []bool{true, false} {
		e := d.connect()
		dying := d.session(e)
		dying.write(dying.open("file", openAnew), 0, "one")
		f := d.connect()
		next, last := d.session(f), d.session(f)
		joined, other := next.open("file", wire.OpenWrite), last.open("file", wire.OpenWrite)
		dying.hangUp(e)
		last.write(other, 3, "two")
		last.close(other)
		next.write(joined, 6, "three")
		if closes {
			next.close(joined)
			p.wantFile("file", "onetwothree")
			p.put("file", "something else")
		} else {
			next.hangUp(f)
			p.wantFile("file", "something else")
		}
	}
}

// An upload is not affected by other operations on its name.
func TestHiddenSettled(t *testing.T) {
	uses := map[string]struct {
		use  func(p *sftpPeer)
		name string // the file's name after the test
	}{
		"rename":       {func(p *sftpPeer) { p.want(wire.OK, wire.AppendRename(nil, p.n(), "file", "moved")) }, "moved"},
		"posix-rename": {func(p *sftpPeer) { p.want(wire.OK, wire.AppendPosixRename(nil, p.n(), "file", "moved")) }, "moved"},
		"rename over":  {func(p *sftpPeer) { p.want(wire.OK, wire.AppendPosixRename(nil, p.n(), "other", "file")) }, ""},
		"link":         {func(p *sftpPeer) { p.want(wire.OK, wire.AppendHardlink(nil, p.n(), "file", "linked")) }, "linked"},
		"remove":       {func(p *sftpPeer) { p.want(wire.OK, wire.AppendRemove(nil, p.n(), "file")) }, ""},
		"read":         {func(p *sftpPeer) { p.wantFile("file", "first") }, "file"},
		"edit": {func(p *sftpPeer) {
			h := p.open("file", wire.OpenRead|wire.OpenWrite)
			p.write(h, 0, "F")
			p.close(h)
			p.write(p.open("file", wire.OpenWrite), 0, "f")
		}, "file"},
		"check": {func(p *sftpPeer) {
			if r := p.ask(wire.AppendCheckFileName(nil, p.n(), "file", "md5", 0, 0, 0)); r.Type != wire.TypeExtendedReply {
				p.t.Errorf("check-file: %v", r.Status)
			}
		}, "file"},
	}
	for what, use := range uses {
		p := newTestSession(t, hideUploads)
		p.put("other", "other")
		h := p.open("file", openAnew)
		var a wire.Attrs
		a.SetTimes(testTime, testTime)
		p.write(h, 0, "first")
		p.want(wire.OK, wire.AppendFsetstat(nil, p.n(), h, a))
		use.use(p)
		p.write(h, 5, " second")
		if got := p.attrs(wire.AppendFstat(nil, p.n(), h)); got.Size != 12 {
			t.Errorf("%s: FSTAT says %+v", what, got)
		}
		p.want(wire.OK, wire.AppendFsetstat(nil, p.n(), h, a))
		p.want(wire.OK, wire.AppendFsync(nil, p.n(), h))
		p.close(h)
		if use.name != "" {
			p.wantFile(use.name, "first second")
			if got := p.stat(use.name); !got.Modified().Equal(testTime) {
				t.Errorf("%s: it was modified %v", what, got.Modified())
			}
		} else if got, _ := p.get("file"); strings.HasPrefix(got, "first") {
			t.Errorf("%s: file holds %q", what, got)
		}
	}
}

// With several uploads to one name, the last to be closed wins.
func TestHiddenTwice(t *testing.T) {
	d := newDirectServer(t, hideUploads)
	p, q := d.session(d.connect()), d.session(d.connect())
	a, b := p.open("file", openAnew), q.open("file", openAnew)
	p.write(a, 0, "from p")
	q.write(b, 0, "from q")
	q.close(b)
	p.wantFile("file", "from q")
	p.close(a)
	p.wantFile("file", "from p")
	x, y := p.open("new", openInsert|wire.OpenExclusive), q.open("new", openInsert|wire.OpenExclusive)
	q.close(y)
	p.want(wire.Failure, wire.AppendClose(nil, p.n(), x))
}

// Users who share an account that can only add files do not see each other's uploads.
func TestHiddenDropBox(t *testing.T) {
	d := newDirectServer(t, func(_ *Server, a *Account) { a.Hidden, a.Access = true, users.UploadOnly })
	c := d.connect()
	p, mine, q := d.session(c), d.session(c), d.session(d.connect())
	h := p.open("file", openAnew)
	p.write(h, 0, "p's")
	q.wantNone("file")
	q.want(wire.NoSuchFile, wire.AppendSetstat(nil, q.n(), "file", wire.Attrs{}))
	if _, status := q.tryOpen("file", wire.OpenWrite, wire.Attrs{}); status != wire.NoSuchFile {
		t.Errorf("another's upload: %v", status)
	}
	if a := mine.stat("file"); a.Size != 3 {
		t.Errorf("their own: %+v", a)
	}
	session := mine.open("file", wire.OpenWrite)
	mine.write(session, 3, " own")
	mine.close(session)
	q.want(wire.NoSuchFile, wire.AppendRemove(nil, q.n(), "file"))
	q.want(wire.NoSuchFile, wire.AppendRename(nil, q.n(), "file", "mine"))
	for _, packet := range p.changes("file")[5:7] {
		p.id = wireID(packet)
		p.want(wire.PermissionDenied, packet) // the request does not publish the upload
	}
	q.wantNone("file")
	p.close(h)
	if a := q.stat("file"); a.Size != 7 {
		t.Errorf("published: %+v", a)
	}
}

// A client need not wait for CLOSE on one channel before it uses the name on others.
func TestHiddenHasty(t *testing.T) {
	d := newDirectServer(t, hideUploads)
	c := d.connect()
	p, q, r := d.session(c), d.session(c), d.session(d.connect())
	for i := range 300 {
		h := p.open("file", openAnew)
		p.write(h, 0, "content")
		var wg sync.WaitGroup
		wg.Go(func() { p.close(h) })
		wg.Go(func() {
			if i%2 == 0 {
				q.want(wire.OK, wire.AppendPosixRename(nil, q.n(), "file", "renamed"))
			} else {
				q.want(wire.OK, wire.AppendHardlink(nil, q.n(), "file", "renamed"))
			}
		})
		wg.Go(func() {
			if i%2 == 0 {
				return
			}
			if a := r.stat("file"); a.Size != 7 {
				t.Errorf("STAT says %+v", a)
			}
			r.want(wire.OK, wire.AppendSetstat(nil, r.n(), "file", wire.Attrs{Flags: wire.AttrMode, Mode: 0o600}))
		})
		wg.Wait()
		p.wantFile("renamed", "content")
		p.want(wire.OK, wire.AppendRemove(nil, p.n(), "renamed"))
		if i%2 == 1 {
			if a := p.stat("file"); a.Mode.FileMode() != 0o600 {
				t.Errorf("it has the mode %v", a.Mode)
			}
			p.want(wire.OK, wire.AppendRemove(nil, p.n(), "file"))
		}
	}
}
