package sftp

import (
	"errors"
	"testing"

	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// A full disk refuses writes that do not fit, reports that, and keeps the existing data. In
// place, writing continues when there is room again. A hidden upload is not published with a hole
// where a write was refused.
func TestFullDisk(t *testing.T) {
	const size = 1 << 20
	for _, hidden := range []bool{false, true} {
		tree := store.Mem(size)
		p := newTestSession(t, func(_ *Server, a *Account) { a.Tree, a.Hidden = tree, hidden })
		first := testBytes(size / 8)
		p.put("first", first)
		h := p.open("second", openAnew)
		refused := 0
		for off := int64(0); off < size; off += maxData {
			r := p.ask(wire.AppendWrite(nil, p.n(), h, off, make([]byte, maxData)))
			if r.Err() == nil {
				continue
			}
			refused++
			if e, ok := errors.AsType[*wire.StatusError](r.Err()); !ok || !errors.Is(storewire.KindOf(e), store.ErrNoSpace) {
				t.Errorf("hidden %v: it is refused by %v", hidden, r.Err())
			}
		}
		if refused == 0 {
			t.Errorf("hidden %v: more than a megabyte fits in one", hidden)
		}
		p.wantFile("first", first)
		p.want(wire.OK, wire.AppendRemove(nil, p.n(), "first"))
		p.write(h, 0, "there is room again")
		if hidden {
			p.want(wire.Failure, wire.AppendClose(nil, p.n(), h))
			p.want(wire.NoSuchFile, wire.AppendStat(nil, p.n(), "second"))
			continue
		}
		p.close(h)
		if got, _ := p.get("second"); len(got) < 19 || got[:19] != "there is room again" {
			t.Errorf("then there are %d bytes", len(got))
		}
	}
}
