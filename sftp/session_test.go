package sftp

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

func TestReadWrite(t *testing.T) {
	p := newTestSession(t, nil)
	data := testBytes(3 * maxData)
	p.put("/file", data[:maxData])
	p.wantFile("/file", data[:maxData])
	p.wantFile("file", data[:maxData])

	h := p.open("/file", wire.OpenRead|wire.OpenWrite)
	p.write(h, int64(maxData), data[maxData:2*maxData])
	if got, status := p.read(h, 10, 1<<31); got != data[10:10+maxData] {
		t.Errorf("a READ of 2 GiB returns %d bytes, %v; want %d", len(got), status, maxData)
	}
	if got, status := p.read(h, 2*maxData-5, 100); got != data[2*maxData-5:2*maxData] {
		t.Errorf("a READ over the end returns %d bytes, %v", len(got), status)
	}
	if _, status := p.read(h, 2*maxData, 1); status != wire.EOF {
		t.Errorf("a READ at the end: %v", status)
	}
	if got, status := p.read(h, 0, 0); got != "" || status != wire.OK {
		t.Errorf("a READ of nothing: %q, %v", got, status)
	}
	p.write(h, 5, "") // changes nothing
	p.write(h, 3*maxData, "x")
	if got, _ := p.read(h, 3*maxData-2, 9); got != "\x00\x00x" {
		t.Errorf("before what was written beyond the end there is %q", got)
	}
	p.close(h)
	for _, packet := range [][]byte{
		wire.AppendRead(nil, p.n(), h, 0, 1), wire.AppendWrite(nil, p.n(), h, 0, []byte("x")),
		wire.AppendFstat(nil, p.n(), h), wire.AppendFsetstat(nil, p.n(), h, wire.Attrs{}),
		wire.AppendReaddir(nil, p.n(), h), wire.AppendFstatVFS(nil, p.n(), h),
	} {
		p.id = wireID(packet)
		p.want(wire.Failure, packet)
	}
	p.want(wire.NoSuchFile, wire.AppendClose(nil, p.n(), h))
	p.want(wire.NoSuchFile, wire.AppendFsync(nil, p.n(), h))
}

func wireID(packet []byte) uint32 {
	h, err := wire.ParseHeader(packet)
	if err != nil {
		panic(err)
	}
	return h.ID
}

func TestOpenFlags(t *testing.T) {
	p := newTestSession(t, nil)
	p.put("old", "0123456789")
	tests := []struct {
		name  string
		flags wire.OpenFlags
		want  wire.Status
	}{
		{"old", 0, wire.BadMessage},
		{"old", wire.OpenCreate, wire.BadMessage},
		{"old", wire.OpenRead | wire.OpenTruncate, wire.BadMessage},
		{"old", wire.OpenWrite | wire.OpenExclusive, wire.BadMessage},
		{"old", wire.OpenWrite | wire.OpenCreate | wire.OpenExclusive, wire.Failure},
		{"new", wire.OpenRead, wire.NoSuchFile},
		{"new", wire.OpenWrite, wire.NoSuchFile},
		{"new", wire.OpenWrite | wire.OpenTruncate, wire.NoSuchFile},
		{"none/new", openAnew, wire.NoSuchFile},
		{"old/new", openAnew, wire.NoSuchFile},
		{"/", wire.OpenRead, wire.Failure},
		{"/", openAnew, wire.Failure},
		{"new", wire.OpenWrite | wire.OpenCreate | wire.OpenExclusive, wire.OK},
		{"new", openInsert, wire.OK},
		{"old", wire.OpenRead | 0x100, wire.OK}, // flags of later versions
	}
	for _, test := range tests {
		h, status := p.tryOpen(test.name, test.flags, wire.Attrs{})
		if status != test.want {
			t.Errorf("open %s with %v: %v, want %v", test.name, test.flags, status, test.want)
		}
		if status == wire.OK {
			p.close(h)
		}
	}
	p.wantFile("old", "0123456789")

	h := p.open("old", wire.OpenWrite|wire.OpenAppend)
	p.write(h, 0, "ab")
	p.write(h, 3, "cd")
	p.close(h)
	p.wantFile("old", "0123456789abcd")
	h = p.open("old", wire.OpenWrite|wire.OpenTruncate)
	p.write(h, 1, "z")
	p.close(h)
	p.wantFile("old", "\x00z")

	h = p.open("old", wire.OpenWrite)
	if _, status := p.read(h, 0, 1); status != wire.PermissionDenied {
		t.Errorf("READ of a file that is open for writing: %v", status)
	}
	p.close(h)
	h = p.open("old", wire.OpenRead)
	p.want(wire.PermissionDenied, wire.AppendWrite(nil, p.n(), h, 0, []byte("x")))
	p.close(h)
}

// Files and directories get the requested permissions, without those in the umask.
func TestMask(t *testing.T) {
	mode := func(m wire.Mode) (a wire.Attrs) {
		a.SetMode(m)
		return a
	}
	tests := []struct {
		umask     int
		attrs     wire.Attrs
		file, dir wire.Mode
	}{
		{0, wire.Attrs{}, 0o644, 0o755},
		{0, mode(0o666), 0o644, 0o644},
		{0, mode(0o100777), 0o755, 0o755},
		{0, mode(0o4711), 0o711, 0o711},
		{0, mode(0o600), 0o600, 0o600},
		{0, mode(0), 0, 0},
		{0o077, mode(0o666), 0o600, 0o600},
		{-1, mode(0o666), 0o666, 0o666},
		{-1, wire.Attrs{}, 0o666, 0o777},
	}
	for _, hidden := range []bool{false, true} {
		for i, test := range tests {
			p := newTestSession(t, func(s *Server, a *Account) { s.Umask, a.Hidden = test.umask, hidden })
			h, status := p.tryOpen("file", wire.OpenWrite|wire.OpenCreate|wire.OpenExclusive, test.attrs)
			if status != wire.OK {
				t.Fatal(status)
			}
			if got := p.attrs(wire.AppendFstat(nil, p.n(), h)).Mode; got != wire.ModeRegular|test.file {
				t.Errorf("test %d: the open file has %v, want %v", i, got, test.file)
			}
			p.close(h)
			p.want(wire.OK, wire.AppendMkdir(nil, p.n(), "dir", test.attrs))
			if got := p.stat("file").Mode; got != wire.ModeRegular|test.file {
				t.Errorf("test %d: the file has %v, want %v", i, got, test.file)
			}
			if got := p.stat("dir").Mode; got != wire.ModeDir|test.dir {
				t.Errorf("test %d: the directory has %v, want %v", i, got, test.dir)
			}
		}
	}
}

func TestAttributes(t *testing.T) {
	p := newTestSession(t, nil)
	p.put("file", "0123456789")
	p.want(wire.OK, wire.AppendSymlink(nil, p.n(), "file", "link"))
	set := func(f func(a *wire.Attrs)) (a wire.Attrs) {
		f(&a)
		return a
	}
	then := time.Unix(1_000_000_000, 0)
	p.want(wire.OK, wire.AppendSetstat(nil, p.n(), "link", set(func(a *wire.Attrs) {
		a.SetSize(4)
		a.SetMode(0o100640)
		a.SetTimes(then.Add(time.Hour), then)
	})))
	for _, a := range []wire.Attrs{p.stat("link"), p.attrs(wire.AppendLstat(nil, p.n(), "file"))} {
		if a.Size != 4 || a.Mode != wire.ModeRegular|0o640 || !a.Modified().Equal(then) || !a.Accessed().Equal(then.Add(time.Hour)) {
			t.Errorf("attributes are %+v", a)
		}
	}
	p.want(wire.OK, wire.AppendMkdir(nil, p.n(), "folder", wire.Attrs{}))
	p.want(wire.OK, wire.AppendSymlink(nil, p.n(), "folder", "short"))
	if a := p.attrs(wire.AppendLstat(nil, p.n(), "short/")); a.Mode.Type() != wire.ModeDir {
		t.Errorf("LSTAT of a link with a slash behind: %v", a.Mode)
	}
	if a := p.attrs(wire.AppendLstat(nil, p.n(), "link")); a.Mode.Type() != wire.ModeSymlink {
		t.Errorf("LSTAT of a link is %v", a.Mode)
	}
	p.wantFile("file", "0123")

	h := p.open("file", wire.OpenWrite)
	p.want(wire.OK, wire.AppendFsetstat(nil, p.n(), h, set(func(a *wire.Attrs) { a.SetSize(6) })))
	p.want(wire.OK, wire.AppendFsetstat(nil, p.n(), h, set(func(a *wire.Attrs) { a.SetTimes(then, then) })))
	if a := p.attrs(wire.AppendFstat(nil, p.n(), h)); a.Size != 6 || !a.Modified().Equal(then) {
		t.Errorf("FSTAT: %+v", a)
	}
	p.close(h)
	p.wantFile("file", "0123\x00\x00")

	// Through a handle that is open for reading, all attributes except the size can be set.
	h = p.open("file", wire.OpenRead)
	later := then.Add(time.Minute)
	p.want(wire.OK, wire.AppendFsetstat(nil, p.n(), h, set(func(a *wire.Attrs) { a.SetMode(0o600); a.SetTimes(later, later) })))
	p.want(wire.PermissionDenied, wire.AppendFsetstat(nil, p.n(), h, set(func(a *wire.Attrs) { a.SetSize(1) })))
	if a := p.attrs(wire.AppendFstat(nil, p.n(), h)); a.Size != 6 || a.Mode != wire.ModeRegular|0o600 || !a.Modified().Equal(later) {
		t.Errorf("FSTAT: %+v", a)
	}
	p.close(h)

	p.want(wire.OK, wire.AppendLsetstat(nil, p.n(), "link", set(func(a *wire.Attrs) { a.SetTimes(then, then) })))
	p.want(wire.BadMessage, wire.AppendLsetstat(nil, p.n(), "link", set(func(a *wire.Attrs) { a.SetSize(1) })))
	p.want(wire.NoSuchFile, wire.AppendSetstat(nil, p.n(), "none", set(func(a *wire.Attrs) { a.SetMode(0o600) })))
	// Files in memory have no owner.
	p.want(wire.Unsupported, wire.AppendSetstat(nil, p.n(), "file", set(func(a *wire.Attrs) { a.SetOwner(1, 1); a.SetMode(0o640) })))
	if a := p.stat("file"); a.Mode != wire.ModeRegular|0o640 {
		t.Errorf("an owner keeps the mode from being set: %+v", a)
	}
	p.want(wire.PermissionDenied, wire.AppendSetstat(nil, p.n(), "/", set(func(a *wire.Attrs) { a.SetMode(0o700) })))
}

// Names are bytes: those that are not UTF-8 are listed, and all operations work with them.
func TestNamesOfBytes(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		t.Skip("names are text there")
	}
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, tree := range []store.Tree{store.Mem(0), localdir.New(root)} {
		for _, hidden := range []bool{false, true} {
			p := newTestSession(t, func(_ *Server, a *Account) { a.Tree, a.Hidden = tree, hidden })
			dir, name, other := "\xc4rger\xff", "\xc4rger\xff/caf\xe9", "\xc4rger\xff/\xfe"
			p.want(wire.OK, wire.AppendMkdir(nil, p.n(), dir, wire.Attrs{}))
			p.put(name, "latin 1")
			p.wantFile(name, "latin 1")
			if _, listed := p.listed(dir, "caf\xe9"); !listed {
				t.Errorf("%T: it is not listed", tree)
			}
			p.want(wire.OK, wire.AppendPosixRename(nil, p.n(), name, other))
			p.want(wire.OK, wire.AppendHardlink(nil, p.n(), other, name))
			p.wantFile(name, "latin 1")
			p.want(wire.OK, wire.AppendRemove(nil, p.n(), other))
			p.want(wire.OK, wire.AppendRemove(nil, p.n(), name))
			p.want(wire.OK, wire.AppendRmdir(nil, p.n(), dir))
		}
	}
}

func TestNames(t *testing.T) {
	p := newTestSession(t, nil)
	p.put("a", "a")
	p.put("b", "b")
	p.want(wire.OK, wire.AppendMkdir(nil, p.n(), "dir", wire.Attrs{}))
	p.want(wire.Failure, wire.AppendMkdir(nil, p.n(), "dir", wire.Attrs{}))
	p.want(wire.Failure, wire.AppendRename(nil, p.n(), "a", "b"))
	p.want(wire.Failure, wire.AppendRename(nil, p.n(), "a", "a"))
	p.want(wire.NoSuchFile, wire.AppendRename(nil, p.n(), "c", "d"))
	p.want(wire.Failure, wire.AppendRename(nil, p.n(), "dir", "dir/below"))
	p.want(wire.OK, wire.AppendRename(nil, p.n(), "a", "dir/a"))
	p.want(wire.OK, wire.AppendPosixRename(nil, p.n(), "dir/a", "b"))
	p.wantFile("b", "a")
	p.wantNone("dir/a")
	p.want(wire.OK, wire.AppendHardlink(nil, p.n(), "b", "dir/c"))
	p.want(wire.Failure, wire.AppendHardlink(nil, p.n(), "b", "dir/c"))
	p.want(wire.PermissionDenied, wire.AppendHardlink(nil, p.n(), "dir", "dir2"))
	p.wantFile("dir/c", "a")
	if r := p.ask(wire.AppendRmdir(nil, p.n(), "dir")); r.Status != wire.Failure || string(r.Message) != "Directory not empty" {
		t.Errorf("what is not empty: %v %q", r.Status, r.Message)
	}
	p.want(wire.Failure, wire.AppendRemove(nil, p.n(), "dir"))
	p.want(wire.NoSuchFile, wire.AppendRmdir(nil, p.n(), "b"))
	p.want(wire.OK, wire.AppendRemove(nil, p.n(), "dir/c"))
	p.want(wire.NoSuchFile, wire.AppendRemove(nil, p.n(), "dir/c"))
	p.want(wire.OK, wire.AppendRmdir(nil, p.n(), "dir/"))
	p.wantNone("dir")
	p.want(wire.PermissionDenied, wire.AppendRmdir(nil, p.n(), "/"))
	p.want(wire.PermissionDenied, wire.AppendRename(nil, p.n(), "/", "x"))

	p.want(wire.OK, wire.AppendSymlink(nil, p.n(), "/etc/passwd", "out"))
	if got := p.name(wire.AppendReadlink(nil, p.n(), "out")); got != "/etc/passwd" {
		t.Errorf("the link says %q", got)
	}
	p.want(wire.BadMessage, wire.AppendReadlink(nil, p.n(), "b"))
	p.want(wire.Failure, wire.AppendSymlink(nil, p.n(), "x", "out"))
	for _, packet := range [][]byte{
		wire.AppendStat(nil, p.n(), "out"), wire.AppendStat(nil, p.n(), "/out"),
	} {
		p.id = wireID(packet)
		p.want(wire.PermissionDenied, packet)
	}
	if _, status := p.get("out"); status != wire.PermissionDenied {
		t.Errorf("what is outside: %v", status)
	}
}

// Requests that arrive together are answered together, in order.
func TestOrder(t *testing.T) {
	p := newTestSession(t, nil)
	data := testBytes(100_000)
	p.put("file", data)
	h := p.open("file", wire.OpenRead|wire.OpenWrite)
	var all []byte
	var want []func(r wire.Reply) error
	for i := range 500 {
		off := int64(i * 150)
		switch i % 4 {
		case 0, 1:
			all = wire.AppendRead(all, p.n(), h, off, uint32(20*i))
			want = append(want, func(r wire.Reply) error {
				if got, want := string(r.Data), data[off:min(len(data), int(off)+20*i)]; got != want {
					return fmt.Errorf("%d bytes at %d, want %d", len(got), off, len(want))
				}
				return nil
			})
		case 2:
			all = wire.AppendWrite(all, p.n(), h, off, []byte(data[off:off+100]))
			want = append(want, func(r wire.Reply) error { return r.Err() })
		case 3:
			all = wire.AppendFstat(all, p.n(), h)
			want = append(want, func(r wire.Reply) error {
				if r.Attrs.Size != int64(len(data)) {
					return fmt.Errorf("size %d", r.Attrs.Size)
				}
				return nil
			})
		}
	}
	first := p.id - uint32(len(want)) + 1
	p.send(all)
	for i, check := range want {
		r := p.reply()
		if r.ID != first+uint32(i) {
			t.Fatalf("reply %d is for request %d", i, r.ID-first)
		}
		if err := check(r); err != nil {
			t.Errorf("reply %d: %v", i, err)
		}
	}
	p.close(h)
}

// A request may arrive in pieces of any size.
func TestPieces(t *testing.T) {
	p := newTestSession(t, nil)
	data := testBytes(maxData)
	h := p.open("file", openAnew|wire.OpenRead)
	for _, size := range []int{1, 7, 4095, 4096, 4097, 65535, 65536, maxData} {
		n := min(size*100, maxData)
		packet := wire.AppendWrite(nil, p.n(), h, 0, []byte(data[:n]))
		for rest := packet; len(rest) > 0; {
			k := min(size, len(rest))
			p.send(rest[:k])
			rest = rest[k:]
			time.Sleep(time.Microsecond) // so that a piece is sometimes read alone
		}
		if r := p.reply(); r.Err() != nil || r.ID != p.id {
			t.Fatalf("in pieces of %d: %v", size, r.Err())
		}
		if got, _ := p.read(h, 0, uint32(n)); got != data[:n] {
			t.Errorf("in pieces of %d something else arrived", size)
		}
	}
	p.close(h)
}

// After an invalid length, nothing further can be parsed.
func TestNonsense(t *testing.T) {
	for _, b := range []string{
		"\x00\x00\x00\x00", "\x00\x00\x00\x04xxxx", "\xff\xff\xff\xff", "\x00\x10\x00\x00",
		"GET / HTTP/1.1\r\n\r\n",
	} {
		p := newTestSession(t, nil)
		p.put("file", "x")
		p.send(wire.AppendRealpath(nil, p.n(), "."), []byte(b))
		if r := p.reply(); r.Type != wire.TypeName {
			t.Errorf("what came before %q is answered by %v", b, r.Type)
		}
		if r, err := p.tryReply(); err == nil {
			t.Errorf("%q is answered by %v", b, r.Type)
		}
	}
}

// INIT must be the first packet.
func TestInitFirst(t *testing.T) {
	d := newDirectServer(t, nil)
	c := d.connect()
	for _, packet := range [][]byte{
		wire.AppendRealpath(nil, 1, "."),
		wire.AppendLimits(nil, 1),
		{0, 0, 0, 5, 77, 0, 0, 0, 1},
	} {
		client, server := newWires("192.0.2.1")
		ended := make(chan error, 1)
		c.work.Go(func() {
			ended <- newSession(c.ctx, &c.userConn, server).serve()
			server.Close()
		})
		p := &sftpPeer{t: t, rw: client}
		p.send(packet)
		if r, err := p.tryReply(); err == nil {
			t.Errorf("answered by %v", r.Type)
		}
		if err := <-ended; err == nil {
			t.Error("the session ends as if that were in order")
		}
	}
	// A session that ends between requests ends without an error; one that ends within a request
	// does not.
	for _, test := range []struct {
		bytes int
		want  error
	}{{0, nil}, {3, io.ErrUnexpectedEOF}, {9, nil}, {12, io.ErrUnexpectedEOF}} {
		client, server := newWires("192.0.2.1")
		b := wire.AppendRealpath(wire.AppendInit(nil, 3), 1, ".")
		if _, err := client.Write(b[:test.bytes]); err != nil {
			t.Fatal(err)
		}
		client.out.closed = true
		if err := newSession(c.ctx, &c.userConn, server).serve(); !errors.Is(err, test.want) {
			t.Errorf("after %d bytes the session ends by %v, want %v", test.bytes, err, test.want)
		}
	}
}

// A client may have a limited number of files and directories open.
func TestHandles(t *testing.T) {
	d := newDirectServer(t, func(s *Server, _ *Account) { s.MaxHandles = 5 })
	c := d.connect()
	p, q := d.session(c), d.session(c)
	p.put("file", "x")
	var open []string
	for range 2 {
		open = append(open, p.open("file", wire.OpenRead))
		q.open("file", wire.OpenRead)
	}
	r := p.ask(wire.AppendOpendir(nil, p.n(), "/"))
	open = append(open, string(r.Handle))
	for _, s := range []*sftpPeer{p, q} {
		if _, status := s.tryOpen("file", wire.OpenRead, wire.Attrs{}); status != wire.Failure {
			t.Errorf("one more: %v", status)
		}
		s.want(wire.Failure, wire.AppendOpendir(nil, s.n(), "/"))
	}
	p.close(open[0])
	again := p.open("file", wire.OpenRead)
	if _, status := p.read(open[0], 0, 1); again == open[0] || status != wire.Failure {
		t.Errorf("a closed handle is good for the next file: %v", status)
	}
	// Handles of another session and invented ones do not work.
	for _, h := range []string{open[1], "", "\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x01", again + "x", again[:7], strings.Repeat("\xff", 8), strings.Repeat("x", 256)} {
		if _, status := q.read(h, 0, 1); status != wire.Failure {
			t.Errorf("READ of handle %q: %v", h, status)
		}
	}
	q.want(wire.BadMessage, wire.AppendClose(nil, q.n(), strings.Repeat("x", 257)))
	if _, status := p.read(open[2], 0, 1); status != wire.Failure {
		t.Errorf("READ of a directory: %v", status)
	}
	p.want(wire.Failure, wire.AppendReaddir(nil, p.n(), again))
	if n := d.server.Counters().Handles; n != 5 {
		t.Errorf("%d handles are counted", n)
	}
}

// A store that fails does not break the session, and its messages are not sent to the client.
func TestStoreErrors(t *testing.T) {
	const secret = "/srv/secret/place"
	tests := []struct {
		err  error
		want wire.Status
	}{
		{errors.New("disk on fire at " + secret), wire.Failure},
		{fmt.Errorf("%s: %w", secret, store.ErrNoSpace), wire.Failure},
		{io.ErrUnexpectedEOF, wire.Failure},
		{nil, wire.Failure}, // no bytes, and no error
	}
	for _, test := range tests {
		p := newTestSession(t, func(_ *Server, a *Account) { a.Tree = brokenTree{a.Tree, test.err} })
		h := p.open("file", openAnew|wire.OpenRead)
		for _, packet := range [][]byte{
			wire.AppendRead(nil, p.n(), h, 0, 1), wire.AppendWrite(nil, p.n(), h, 0, []byte("x")), wire.AppendClose(nil, p.n(), h),
		} {
			p.id = wireID(packet)
			r := p.ask(packet)
			if r.Type != wire.TypeStatus || r.Status != test.want || strings.Contains(string(r.Message), "/") {
				t.Errorf("%v: %v %v %q", test.err, r.Type, r.Status, r.Message)
			}
		}
		p.wantNone("none")
	}
}
