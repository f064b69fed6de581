package sftp

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// An sftpPeer is an SFTP client that tests control packet by packet.
type sftpPeer struct {
	t  testing.TB
	rw io.ReadWriter
	id uint32
}

// n returns an id for the next request.
func (p *sftpPeer) n() uint32 {
	p.id++
	return p.id
}

func (p *sftpPeer) send(packets ...[]byte) {
	p.t.Helper()
	if _, err := p.rw.Write(bytes.Join(packets, nil)); err != nil {
		p.t.Fatalf("send: %v", err)
	}
}

// tryReply returns the next reply, or an error.
func (p *sftpPeer) tryReply() (wire.Reply, error) {
	b := make([]byte, 4)
	if _, err := io.ReadFull(p.rw, b); err != nil {
		return wire.Reply{}, err
	}
	b = append(b, make([]byte, binary.BigEndian.Uint32(b))...)
	if _, err := io.ReadFull(p.rw, b[4:]); err != nil {
		return wire.Reply{}, err
	}
	return wire.ParseReply(b)
}

func (p *sftpPeer) reply() wire.Reply {
	p.t.Helper()
	r, err := p.tryReply()
	if err != nil {
		p.t.Fatalf("reply: %v", err)
	}
	return r
}

// ask sends a request with the last id from n, and returns the reply.
func (p *sftpPeer) ask(packet []byte) wire.Reply {
	p.t.Helper()
	p.send(packet)
	r := p.reply()
	if r.Type != wire.TypeVersion && r.ID != p.id {
		p.t.Fatalf("reply to request %d came for %d", r.ID, p.id)
	}
	return r
}

func (p *sftpPeer) begin() {
	p.t.Helper()
	if r := p.ask(wire.AppendInit(nil, 3)); r.Type != wire.TypeVersion || r.Version != 3 {
		p.t.Fatalf("INIT is answered by %v, version %d", r.Type, r.Version)
	}
}

// want sends a request, and expects a STATUS.
func (p *sftpPeer) want(status wire.Status, packet []byte) {
	p.t.Helper()
	if r := p.ask(packet); r.Type != wire.TypeStatus || r.Status != status {
		p.t.Errorf("%v with %v (%q), want %v", r.Type, r.Status, r.Message, status)
	}
}

// tryOpen opens a file. The status is OK on success.
func (p *sftpPeer) tryOpen(name string, flags wire.OpenFlags, a wire.Attrs) (string, wire.Status) {
	p.t.Helper()
	r := p.ask(wire.AppendOpen(nil, p.n(), name, flags, a))
	if r.Type == wire.TypeStatus {
		return "", r.Status
	}
	if r.Type != wire.TypeHandle {
		p.t.Fatalf("OPEN is answered by %v", r.Type)
	}
	return string(r.Handle), wire.OK
}

func (p *sftpPeer) open(name string, flags wire.OpenFlags) string {
	p.t.Helper()
	h, status := p.tryOpen(name, flags, wire.Attrs{})
	if status != wire.OK {
		p.t.Fatalf("open %s: %v", name, status)
	}
	return h
}

const (
	openAnew   = wire.OpenWrite | wire.OpenCreate | wire.OpenTruncate
	openInsert = wire.OpenWrite | wire.OpenCreate
)

func (p *sftpPeer) write(h string, off int64, data string) {
	p.t.Helper()
	p.want(wire.OK, wire.AppendWrite(nil, p.n(), h, off, []byte(data)))
}

func (p *sftpPeer) close(h string) {
	p.t.Helper()
	p.want(wire.OK, wire.AppendClose(nil, p.n(), h))
}

func (p *sftpPeer) put(name, data string) {
	p.t.Helper()
	h := p.open(name, openAnew)
	p.write(h, 0, data)
	p.close(h)
}

// read reads from an open file.
func (p *sftpPeer) read(h string, off int64, n uint32) (string, wire.Status) {
	p.t.Helper()
	r := p.ask(wire.AppendRead(nil, p.n(), h, off, n))
	if r.Type == wire.TypeStatus {
		return "", r.Status
	}
	if r.Type != wire.TypeData {
		p.t.Fatalf("READ is answered by %v", r.Type)
	}
	return string(r.Data), wire.OK
}

// get returns the content of a file, or the status of the failure.
func (p *sftpPeer) get(name string) (string, wire.Status) {
	p.t.Helper()
	h, status := p.tryOpen(name, wire.OpenRead, wire.Attrs{})
	if status != wire.OK {
		return "", status
	}
	defer p.close(h)
	var all string
	for {
		s, status := p.read(h, int64(len(all)), maxData)
		if status == wire.EOF {
			return all, wire.OK
		}
		if status != wire.OK {
			return "", status
		}
		all += s
	}
}

func (p *sftpPeer) wantFile(name, data string) {
	p.t.Helper()
	if got, status := p.get(name); status != wire.OK || got != data {
		p.t.Errorf("%s holds %.50q (%d bytes, %v), want %.50q (%d bytes)", name, got, len(got), status, data, len(data))
	}
}

func (p *sftpPeer) wantNone(name string) {
	p.t.Helper()
	p.want(wire.NoSuchFile, wire.AppendLstat(nil, p.n(), name))
}

// attrs returns the attributes in the reply to a request.
func (p *sftpPeer) attrs(packet []byte) wire.Attrs {
	p.t.Helper()
	r := p.ask(packet)
	if r.Type != wire.TypeAttrs {
		p.t.Fatalf("%v with %v instead of attributes", r.Type, r.Status)
	}
	return r.Attrs
}

func (p *sftpPeer) stat(name string) wire.Attrs {
	p.t.Helper()
	return p.attrs(wire.AppendStat(nil, p.n(), name))
}

// name returns the only name in the reply to a request.
func (p *sftpPeer) name(packet []byte) string {
	p.t.Helper()
	r := p.ask(packet)
	e, ok := r.Names.One()
	if r.Type != wire.TypeName || !ok {
		p.t.Fatalf("%v with %v (%q) instead of a name", r.Type, r.Status, r.Message)
	}
	return string(e.Name)
}

// list returns the entries of a directory, and the number of replies.
func (p *sftpPeer) list(name string) (entries []wire.Entry, replies int) {
	p.t.Helper()
	r := p.ask(wire.AppendOpendir(nil, p.n(), name))
	if r.Type != wire.TypeHandle {
		p.t.Fatalf("OPENDIR %s: %v", name, r.Status)
	}
	h := string(r.Handle)
	defer p.close(h)
	for {
		r := p.ask(wire.AppendReaddir(nil, p.n(), h))
		if r.Type == wire.TypeStatus {
			if r.Status != wire.EOF {
				p.t.Fatalf("READDIR %s: %v", name, r.Status)
			}
			return entries, replies
		}
		replies++
		for e := range r.Names.All() {
			entries = append(entries, e)
		}
	}
}

// listed returns the entry with a name in a directory, and whether it is listed.
func (p *sftpPeer) listed(dir, name string) (wire.Entry, bool) {
	p.t.Helper()
	entries, _ := p.list(dir)
	for _, e := range entries {
		if string(e.Name) == name {
			return e, true
		}
	}
	return wire.Entry{}, false
}
