package webclient

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/haul-project/haul/internal/repeat"
	"github.com/haul-project/haul/store/treecopy"
)

var contentSeed = flag.Uint64("client-seed", 0, "of TestRandom: one world instead of many")

// A randomLab is a server with faults of every kind at random, whose file changes at random.
type randomLab struct {
	mu       sync.Mutex
	random   *rand.Rand
	versions []labFile
	now      int     // the current version; guarded by mu
	faults   float64 // probability of a fault
	changes  float64 // probability of a change of the file
	guarded  bool
}

// answer serves the current file, or a faulty answer.
func (x *randomLab) answer(l *lab, w http.ResponseWriter, r *http.Request) {
	x.mu.Lock()
	if x.random.Float64() < x.changes {
		x.now = x.random.IntN(len(x.versions))
	}
	f := x.versions[x.now]
	fault := -1
	if x.random.Float64() < x.faults {
		fault = x.random.IntN(5)
	}
	cut := 1 + x.random.IntN(len(f.content))
	x.mu.Unlock()
	switch fault {
	case 0:
		panic(http.ErrAbortHandler)
	case 1:
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case 2, 3:
		w = &cuttingWriter{ResponseWriter: w, left: cut}
	case 4: // no ranges for this request
		r.Header.Del("Range")
	}
	l.serveLabFile(w, r, f)
}

// Connections are lost, the server is too busy, and the file is replaced, at random. The result is
// always one of the versions, and never a mix.
func TestRandom(t *testing.T) {
	seeds := []uint64{rand.Uint64()}
	if *contentSeed != 0 {
		seeds = []uint64{*contentSeed}
	} else if !testing.Short() {
		for range 39 {
			seeds = append(seeds, rand.Uint64())
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			repeat.OnFailure(t, fmt.Sprintf("-client-seed=%d", seed))
			randomWorld(t, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

func randomWorld(t *testing.T, random *rand.Rand) {
	size := 1<<20 + random.IntN(6<<20)
	x := &randomLab{random: random, faults: 0.1 + 0.5*random.Float64(), guarded: random.IntN(4) > 0}
	if random.IntN(2) == 0 {
		x.changes = 0.3
	}
	all := randomContent(size + 3)
	for i := range 3 {
		f := labFile{content: all[i : i+size], modified: labTime} // all versions have the same size and date
		if x.guarded {
			f.etag = fmt.Sprintf(`"%d"`, i)
		} else {
			f.modified = labTime.AddDate(0, 0, i)
		}
		x.versions = append(x.versions, f)
	}
	l := startLab(t, nil)
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		x.answer(l, w, r)
		return true
	})
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	const most = 100 // runs of the test
	for run := 1; ; run++ {
		_, err := copyTo(t, l.client(Config{}), "f", dir, treecopy.Options{Continue: true})
		if err == nil {
			break
		}
		if _, e := os.Stat(name); e == nil {
			t.Fatalf("run %d failed, and the file has its name: %v", run, err)
		}
		if run == most {
			t.Fatalf("not done after %d runs: %v", run, err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range x.versions {
		if bytes.Equal(got, f.content) {
			return
		}
	}
	t.Errorf("%d bytes that are of no version", len(got))
}

// An upload in parts that is cut anywhere is complete in the end.
func TestPutRandom(t *testing.T) {
	seed := rand.Uint64()
	if *contentSeed != 0 {
		seed = *contentSeed
	}
	repeat.OnFailure(t, fmt.Sprintf("-client-seed=%d", seed))
	random := rand.New(rand.NewPCG(seed, 0))
	for range 10 {
		content := randomContent(1<<20 + random.IntN(3<<20))
		p := &partsLab{}
		for range random.IntN(12) {
			p.cuts = append(p.cuts, random.IntN(len(content)/2))
		}
		l := startPartsLab(t, p)
		dir := localFile(t, content)
		for run := 1; ; run++ {
			_, err := putFrom(t, l.client(Config{}), dir, treecopy.Options{Continue: true})
			if err == nil {
				break
			}
			if _, there := l.stored("f"); there || run == 20 {
				t.Fatalf("run %d: %v; it has its name: %v", run, err, there)
			}
		}
		if got, _ := l.stored("f"); !bytes.Equal(got, content) {
			t.Fatalf("%d other bytes have come", len(got))
		}
		l.Close()
	}
}
