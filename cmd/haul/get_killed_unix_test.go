//go:build unix

package main

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
)

const killedSize = 64 << 20

// killedContent returns the content of a file whose copy is cut off.
func killedContent(size int) []byte {
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	return content
}

// testKilled kills a process in the middle of a get --continue. It checks that no file has the
// final name, and that the next run resumes from the part that is certainly on the disk. The server
// is behind the relay `between`. sent returns how many bytes of files the server has sent.
func testKilled(t *testing.T, content []byte, between *relay, args []string, sent func() int64) {
	t.Helper()
	here := t.TempDir()
	args = append([]string{"get", "--continue"}, append(args, here)...)
	// The limit makes the connections of the copy advance together: a checkpoint counts only data
	// without a gap.
	c := runChild(t, childOptions{}, append(args, "--limit", "16M")...)
	// The second checkpoint says how much of the file is on the disk.
	var first []byte
	awaitHidden(t, here, ".mark", func(b []byte) bool {
		if first == nil && len(b) > 0 {
			first = b
		}
		return !bytes.Equal(b, first)
	})
	_ = c.cmd.Process.Kill()
	c.wantExit(-1)
	if _, err := os.Stat(filepath.Join(here, "big")); err == nil {
		t.Error("the file has its name, and is not whole")
	}
	between.open()
	before := sent()
	code, _, msg := haul(t, args...)
	if code != 0 || !strings.Contains(msg, "were there before") {
		t.Errorf("the next run: exit code %d, %s", code, msg)
	}
	if again := sent() - before; again >= killedSize {
		t.Errorf("the next run was sent %d bytes, and the file has %d", again, killedSize)
	}
	wantFile(t, filepath.Join(here, "big"), string(content))
	if left, _ := filepath.Glob(filepath.Join(here, ".haul*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestHTTPKilled(t *testing.T) {
	t.Parallel() // it waits most of the time
	content := killedContent(killedSize)
	l := startWeb(t, nil)
	l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(&countingWriter{w, l}, r, "", time.Unix(1, 0), bytes.NewReader(content))
		return true
	})
	between := startRelay(t, l.Listener.Addr().String(), killedSize-killedSize/8)
	testKilled(t, content, between, []string{"http://" + between.addr + "/big"}, l.sentBytes)
}

func TestSFTPKilled(t *testing.T) {
	t.Parallel() // it waits most of the time
	content := killedContent(killedSize)
	mem := store.Mem(1 << 30)
	u, err := mem.Create(t.Context(), "big", store.Create{Size: killedSize})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.WriteAt(content, 0); err != nil {
		t.Fatal(err)
	}
	if err := u.Commit(); err != nil {
		t.Fatal(err)
	}
	l := startLabWith(t, labOptions{tree: func(store.Tree) store.Tree { return mem }}, nil)
	between := startRelay(t, l.addr, killedSize-killedSize/8)
	l.configure("IdentityFile "+l.key, "HostKeyAlias [127.0.0.1]:"+l.port)
	testKilled(t, content, between, l.args("sftp://"+between.addr+"/big"), func() int64 { return l.server.Counters().Sent })
}
