package sftp

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
)

// newSharedTree returns a server with a tree, and a function that makes connections with
// different access for the account.
func newSharedTree(t *testing.T, hidden bool) (d *directServer, as func(users.Access) *sftpPeer) {
	d = newDirectServer(t, func(_ *Server, a *Account) { a.Hidden = hidden })
	tree := d.account.Tree
	as = func(access users.Access) *sftpPeer {
		d.account = &Account{User: "alice", Tree: tree, Access: access, Hidden: hidden}
		return d.session(d.connect())
	}
	return d, as
}

// changes returns requests that change something. None of them may succeed.
func (p *sftpPeer) changes(file string) [][]byte {
	var a wire.Attrs
	a.SetMode(0o600)
	return [][]byte{
		wire.AppendMkdir(nil, p.n(), "newdir", wire.Attrs{}),
		wire.AppendRemove(nil, p.n(), file),
		wire.AppendRmdir(nil, p.n(), "dir"),
		wire.AppendRename(nil, p.n(), file, "other"),
		wire.AppendPosixRename(nil, p.n(), file, "other"),
		wire.AppendHardlink(nil, p.n(), file, "other"),
		wire.AppendSymlink(nil, p.n(), "x", "other"),
		wire.AppendSetstat(nil, p.n(), file, a),
		wire.AppendLsetstat(nil, p.n(), file, a),
	}
}

func TestReadOnly(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		_, as := newSharedTree(t, hidden)
		full := as(users.Full)
		full.put("file", "content")
		full.want(wire.OK, wire.AppendMkdir(nil, full.n(), "dir", wire.Attrs{}))
		p := as(users.ReadOnly)
		for _, packet := range p.changes("file") {
			p.id = wireID(packet)
			p.want(wire.PermissionDenied, packet)
		}
		for _, flags := range []wire.OpenFlags{
			wire.OpenWrite, openAnew, openInsert, wire.OpenRead | wire.OpenWrite,
			wire.OpenWrite | wire.OpenAppend, wire.OpenWrite | wire.OpenCreate | wire.OpenExclusive,
		} {
			for _, name := range []string{"file", "none"} {
				if _, status := p.tryOpen(name, flags, wire.Attrs{}); status != wire.PermissionDenied {
					t.Errorf("open %s with %v: %v", name, flags, status)
				}
			}
		}
		h := p.open("file", wire.OpenRead)
		p.want(wire.PermissionDenied, wire.AppendWrite(nil, p.n(), h, 0, []byte("x")))
		var mode, times wire.Attrs
		mode.SetMode(0o600)
		times.SetTimes(testTime, testTime)
		for _, a := range []wire.Attrs{{Flags: wire.AttrSize}, {}, mode, times} {
			p.want(wire.PermissionDenied, wire.AppendFsetstat(nil, p.n(), h, a))
		}
		p.close(h)
		p.wantFile("file", "content")
		if entries, _ := p.list("/"); len(entries) != 4 {
			t.Errorf("%d entries", len(entries))
		}
		r := p.ask(wire.AppendStatVFS(nil, p.n(), "/"))
		if v, err := r.StatVFS(); err != nil || v.Flags&wire.StatVFSReadOnly == 0 {
			t.Errorf("statvfs: %+v, %v", v, err)
		}
	}
}

func TestUploadOnly(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		_, as := newSharedTree(t, hidden)
		full := as(users.Full)
		full.put("file", "content")
		full.want(wire.OK, wire.AppendMkdir(nil, full.n(), "dir", wire.Attrs{}))
		p := as(users.UploadOnly)
		for _, packet := range p.changes("file")[1:] {
			p.id = wireID(packet)
			p.want(wire.PermissionDenied, packet)
		}
		for _, flags := range []wire.OpenFlags{wire.OpenRead, wire.OpenRead | wire.OpenWrite, wire.OpenWrite, wire.OpenWrite | wire.OpenAppend} {
			if _, status := p.tryOpen("file", flags, wire.Attrs{}); status != wire.PermissionDenied {
				t.Errorf("open with %v: %v", flags, status)
			}
		}
		for _, flags := range []wire.OpenFlags{openAnew, wire.OpenRead | openAnew, openInsert, openInsert | wire.OpenExclusive} {
			if _, status := p.tryOpen("file", flags, wire.Attrs{}); status != wire.Failure {
				t.Errorf("open what exists with %v: %v", flags, status)
			}
		}
		// New files can be uploaded, with mode and times.
		var a wire.Attrs
		a.SetTimes(testTime, testTime)
		a.SetMode(0o640)
		h := p.open("dir/new", openAnew)
		p.write(h, 0, "brought")
		p.want(wire.OK, wire.AppendFsetstat(nil, p.n(), h, a))
		a.SetOwner(0, 0)
		a.SetMode(0o660)
		p.want(wire.PermissionDenied, wire.AppendFsetstat(nil, p.n(), h, a))
		if got := p.attrs(wire.AppendFstat(nil, p.n(), h)); got.Mode.FileMode() != 0o660 {
			t.Errorf("an owner keeps the mode from being set: %+v", got)
		}
		a = wire.Attrs{}
		a.SetMode(0o640)
		p.want(wire.OK, wire.AppendFsetstat(nil, p.n(), h, a))
		p.close(h)
		if got := p.stat("dir/new"); got.Size != 7 || !got.Modified().Equal(testTime) || got.Mode.FileMode() != 0o640 {
			t.Errorf("it is %+v", got)
		}
		full.wantFile("dir/new", "brought")
		// A client that also requests read access may upload the file, but not read it.
		h = p.open("dir/both", wire.OpenRead|openAnew)
		p.write(h, 0, "brought")
		p.want(wire.PermissionDenied, wire.AppendRead(nil, p.n(), h, 0, 10))
		p.close(h)
		full.wantFile("dir/both", "brought")
		p.want(wire.OK, wire.AppendMkdir(nil, p.n(), "newdir", wire.Attrs{}))
		// Other users cannot change the uploaded file.
		q := as(users.UploadOnly)
		for _, packet := range q.changes("dir/new")[1:] {
			q.id = wireID(packet)
			q.want(wire.PermissionDenied, packet)
		}
		full.wantFile("dir/new", "brought")
		// Directories are listed if the access permits, so that a client finds its way.
		entries, _ := p.list("/")
		var names []string
		for _, e := range entries {
			names = append(names, string(e.Name))
		}
		slices.Sort(names)
		if want := []string{".", "..", "dir", "newdir"}; !slices.Equal(names, want) {
			t.Errorf("there is %q, want %q", names, want)
		}
		full.wantFile("file", "content")
	}
}

// Clients upload under another name, and rename the file when it is complete, with its times.
// They may do so in a drop box, but must not replace another file.
func TestUploadOnlyFinishes(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		_, as := newSharedTree(t, hidden)
		full := as(users.Full)
		full.put("old", "content")
		p, q := as(users.UploadOnly), as(users.UploadOnly)
		var a wire.Attrs
		a.SetTimes(testTime, testTime)
		for i, rename := range []func([]byte, uint32, string, string) []byte{wire.AppendRename, wire.AppendPosixRename} {
			part, name := "new.filepart", []string{"new", "newer"}[i]
			p.put(part, "brou")
			h := p.open(part, wire.OpenWrite)
			p.write(h, 4, "ght")
			p.close(h)
			q.want(wire.PermissionDenied, rename(nil, q.n(), part, name))
			p.want(wire.Failure, rename(nil, p.n(), part, "old"))
			p.want(wire.OK, rename(nil, p.n(), part, name))
			p.want(wire.OK, wire.AppendSetstat(nil, p.n(), name, a))
			if got := p.stat(name); got.Size != 7 || !got.Modified().Equal(testTime) {
				t.Errorf("it is %+v", got)
			}
			q.want(wire.PermissionDenied, wire.AppendRemove(nil, q.n(), name))
			// The old name may belong to another user's file.
			full.put(part, "another's")
			p.want(wire.PermissionDenied, wire.AppendRemove(nil, p.n(), name+"/../old"))
			full.want(wire.OK, wire.AppendRemove(nil, full.n(), part))
			full.wantFile(name, "brought")
		}
		full.wantFile("old", "content")
		// A failed upload is removed.
		p.put("failed", "x")
		p.want(wire.OK, wire.AppendRemove(nil, p.n(), "failed"))
		full.wantNone("failed")
		a.SetOwner(0, 0)
		p.want(wire.PermissionDenied, wire.AppendSetstat(nil, p.n(), "new", a))
		// A missing file does not count as a refusal.
		for _, packet := range [][]byte{
			wire.AppendRemove(nil, 0, "none"), wire.AppendRmdir(nil, 0, "none"),
			wire.AppendRename(nil, 0, "none", "x"), wire.AppendSetstat(nil, 0, "none", wire.Attrs{}),
		} {
			p.id = wireID(packet)
			p.want(wire.NoSuchFile, packet)
		}
		// The name of a client's temporary file is a secret. A client that knows it may use the
		// file on any connection, but no client can read it.
		secret := tempname.New(strings.Repeat("A", 26), tempname.Upload)
		p.put(secret, "x")
		if _, status := q.tryOpen(secret, wire.OpenRead, wire.Attrs{}); status != wire.PermissionDenied {
			t.Errorf("read: %v", status)
		}
		q.close(q.open(secret, wire.OpenWrite))
		q.want(wire.OK, wire.AppendPosixRename(nil, q.n(), secret, "found"))
		q.want(wire.OK, wire.AppendRemove(nil, q.n(), "found"))
	}
}

// Each operation is reported with its result.
func TestAudit(t *testing.T) {
	var reported []string
	p := newTestSession(t, func(s *Server, a *Account) {
		a.Dir = "home"
		if err := a.Tree.Mkdir(t.Context(), "home", 0); err != nil {
			t.Fatal(err)
		}
		s.Audit = func(o *Operation) {
			line := o.What + " " + o.Name
			if o.To != "" {
				line += " " + o.To
			}
			switch {
			case errors.Is(o.Err, fs.ErrNotExist):
				line += ": none"
			case o.Err != nil:
				line += ": " + o.Err.Error()
			}
			if o.Conn.User != "alice" {
				line += " by " + o.Conn.User
			}
			reported = append(reported, line)
		}
		s.Started = func(t *Transfer) { reported = append(reported, "open "+t.Name) }
		s.Ended = func(t *Transfer) { reported = append(reported, "close "+t.Name) }
	})
	p.put("file", "x")
	p.ask(wire.AppendMkdir(nil, p.n(), "dir", wire.Attrs{}))
	p.ask(wire.AppendRename(nil, p.n(), "file", "dir/file"))
	p.ask(wire.AppendPosixRename(nil, p.n(), "none", "/x"))
	p.ask(wire.AppendHardlink(nil, p.n(), "dir/file", "/linked"))
	p.ask(wire.AppendSymlink(nil, p.n(), "../any/thing", "soft"))
	p.ask(wire.AppendSetstat(nil, p.n(), "dir", wire.Attrs{}))
	p.ask(wire.AppendRemove(nil, p.n(), "/home/dir/file"))
	p.ask(wire.AppendRmdir(nil, p.n(), "dir"))
	p.ask(wire.AppendStat(nil, p.n(), "dir")) // changes nothing
	p.ask(wire.AppendOpen(nil, p.n(), "gone", wire.OpenRead, wire.Attrs{}))
	want := []string{
		"open /home/file", "close /home/file",
		"mkdir /home/dir",
		"rename /home/file /home/dir/file",
		"rename /home/none /x: none",
		"link /home/dir/file /linked",
		"symlink /home/soft ../any/thing",
		"setattr /home/dir",
		"remove /home/dir/file",
		"rmdir /home/dir",
		"open /home/gone: none",
	}
	if !slices.Equal(reported, want) {
		t.Errorf("reported %q, want %q", reported, want)
	}
}

// The hooks are called with the bytes and the end of each transfer.
func TestTransfers(t *testing.T) {
	var ended []*Transfer
	d := newDirectServer(t, func(s *Server, a *Account) {
		s.Started = func(t *Transfer) { t.Value = "mine" }
		s.Ended = func(t *Transfer) { ended = append(ended, t) }
	})
	c := d.connect()
	p := d.session(c)
	p.put("file", "0123456789")
	h := p.open("file", wire.OpenRead)
	p.read(h, 0, 4)
	p.read(h, 8, 4)
	p.read(h, 10, 4) // reading at the end of the file is not an error
	p.close(h)
	h = p.open("file", wire.OpenRead)
	p.ask(wire.AppendWrite(nil, p.n(), h, 0, []byte("x")))
	p.close(h)
	p.open("file", wire.OpenRead|wire.OpenWrite)
	p.hangUp(c)
	want := []struct {
		sent, received int64
		read, write    bool
		err            error
	}{
		{0, 10, false, true, nil},
		{6, 0, true, false, nil},
		{0, 0, true, false, fs.ErrPermission},
		{0, 0, true, true, ErrAbandoned},
	}
	if len(ended) != len(want) {
		t.Fatalf("%d transfers were reported, want %d", len(ended), len(want))
	}
	for i, w := range want {
		e := ended[i]
		if e.Sent() != w.sent || e.Received() != w.received || e.Read != w.read || e.Write != w.write || !errors.Is(e.Err, w.err) {
			t.Errorf("transfer %d: sent %d, received %d, %v, %v, %v", i, e.Sent(), e.Received(), e.Read, e.Write, e.Err)
		}
		if e.Name != "/file" || e.Value != "mine" || e.Conn.User != "alice" {
			t.Errorf("transfer %d is %+v", i, e)
		}
	}
	if n := d.server.Counters(); n.Sent != 6 || n.Received != 10 || c.info.Sent() != 6 || c.info.Received() != 10 {
		t.Errorf("counted %+v", n)
	}
}

// A file that was read completely counts as delivered, even if the client disconnects without
// closing it.
func TestTransferDelivered(t *testing.T) {
	var ended []*Transfer
	d := newDirectServer(t, func(s *Server, a *Account) {
		s.Ended = func(t *Transfer) { ended = append(ended, t) }
	})
	d.session(d.connect()).put("file", "0123456789")
	d.session(d.connect()).put("empty", "")
	for i, c := range []struct {
		name  string
		reads [][2]int64 // offset and length
		whole bool
	}{
		{"file", [][2]int64{{0, 10}}, true},
		{"file", [][2]int64{{4, 10}, {0, 4}}, true},
		{"file", [][2]int64{{8, 10}, {10, 10}}, true}, // the answer contained the end of the file
		{"file", [][2]int64{{0, 9}}, false},
		{"file", nil, false},
		{"empty", [][2]int64{{0, 10}}, true},
		{"empty", nil, false},
	} {
		ended = nil
		conn := d.connect()
		p := d.session(conn)
		h := p.open(c.name, wire.OpenRead)
		for _, r := range c.reads {
			p.read(h, r[0], uint32(r[1]))
		}
		p.hangUp(conn)
		if len(ended) != 1 || (ended[0].Err == nil) != c.whole || !c.whole && !errors.Is(ended[0].Err, ErrAbandoned) {
			t.Errorf("%d: %s, reading %v: reported %+v", i, c.name, c.reads, ended)
		}
	}
}

// A CLOSE that a client sent before it disconnected is executed, although its answer is lost.
func TestLeavesAfterClose(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		var ended []*Transfer
		d := newDirectServer(t, func(s *Server, a *Account) {
			a.Hidden = hidden
			s.Ended = func(t *Transfer) { ended = append(ended, t) }
		})
		d.session(d.connect()).put("file", "content")
		ended = nil
		for _, flags := range []wire.OpenFlags{wire.OpenRead, openAnew} {
			c := d.connect()
			client, server := newWires("192.0.2.1")
			first := string(make([]byte, handleSize))
			b := wire.AppendOpen(wire.AppendInit(nil, 3), 1, "file", flags, wire.Attrs{})
			for range 500 { // more than the server reads at once, so that it has to send replies before the end
				b = wire.AppendStat(b, 2, "file")
			}
			if flags == openAnew {
				b = wire.AppendWrite(b, 3, first, 0, []byte("more"))
			}
			b = wire.AppendClose(b, 4, first)
			b = wire.AppendRemove(b, 5, "file") // not executed, because the client has already disconnected
			if _, err := client.Write(b); err != nil {
				t.Fatal(err)
			}
			client.Close()
			if err := newSession(c.ctx, &c.userConn, server).serve(); err != nil {
				t.Error(err)
			}
		}
		if len(ended) != 2 || ended[0].Err != nil || ended[1].Err != nil {
			t.Errorf("hidden %v: reported %+v", hidden, ended)
		}
		d.session(d.connect()).wantFile("file", "more")
	}
}

var _ store.Tree = brokenTree{}

// Accounts that may only add files are often shared. An upload of one user is hidden from the
// others, who can neither change nor publish it.
func TestCreateOnlyPending(t *testing.T) {
	d := newDirectServer(t, func(_ *Server, a *Account) { a.Hidden, a.CreateOnly = true, true })
	p, q := d.session(d.connect()), d.session(d.connect())
	h := p.open("file", openAnew)
	p.write(h, 0, "brought")
	for _, packet := range q.changes("file")[1:] {
		q.id = wireID(packet)
		if q.ask(packet).Status == wire.OK {
			t.Errorf("request %d of another is done", packet[4])
		}
	}
	for _, flags := range []wire.OpenFlags{wire.OpenRead, wire.OpenWrite, wire.OpenWrite | wire.OpenAppend} {
		if _, status := q.tryOpen("file", flags, wire.Attrs{}); status != wire.NoSuchFile {
			t.Errorf("another opens it with %v: %v", flags, status)
		}
	}
	q.wantNone("file")
	p.close(h)
	q.wantFile("file", "brought")
}
