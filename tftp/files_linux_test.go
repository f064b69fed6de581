package tftp

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
)

// Transfers of one file use one descriptor, and count as one file. When the limit is reached, a
// further file is refused. It is accepted when one file has been closed.
func TestFilesBound(t *testing.T) {
	dir, d := realDir(t)
	for _, name := range []string{"f", "g", "h"} {
		writeFile(t, dir, name, string(tftptest.Content(name, 2*maxAhead)))
	}
	l := serve(t, Config{Store: d, MaxFiles: 2, Upload: CreateUploads})
	begin := func(name string) *tftptest.Peer {
		t.Helper()
		p := newBadPeer(t, l)
		p.Send(tftptest.RRQ(name))
		p.Want(name, tftptest.Data(1, tftptest.Content(name, 2*maxAhead)[:512]))
		return p
	}
	var readers []*tftptest.Peer
	for range 20 {
		readers = append(readers, begin("f"))
	}
	open := 0
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, dir+"/") {
			open++
		}
	}
	if open != 1 {
		t.Errorf("%d descriptors for the readers of one file", open)
	}
	second := begin("g")
	for _, request := range [][]byte{tftptest.RRQ("h"), tftptest.WRQ("new")} {
		p := newBadPeer(t, l)
		p.Send(request)
		p.WantError("a third file", transfer.NotDefined)
	}
	readers = append(readers, begin("g"))
	second.Send(tftptest.ErrorPacket(0, "enough"))
	for _, p := range readers {
		p.Send(tftptest.ErrorPacket(0, "enough"))
	}
	for deadline := time.Now().Add(tftptest.Patience); l.files.Open() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d files are open, and no transfer is left", l.files.Open())
		}
	}
	begin("h").Send(tftptest.ErrorPacket(0, "enough"))
}
