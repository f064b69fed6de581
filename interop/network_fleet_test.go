//go:build linux

package interop

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	fleetReplicas = 3
	fleetMachines = 1000
	fleetLoader   = 200_001
	fleetImage    = 1_500_001

	// fleetLoaded is how many transfers a replica has finished when it is killed or restarted.
	// There are about two for each machine, and a third of the machines.
	fleetLoaded = 200
)

func replicaAddress(i int) string { return fmt.Sprintf("10.70.%d.1", i) }

func hubAddress(i int) string { return fmt.Sprintf("10.70.%d.2", i) }

// A fleet consists of some replicas of haul, each on its own node, and a node between them on
// which machines boot. The replicas have their files from a bucket, which they also reach through
// that node, and each has a cache.
type fleet struct {
	hub      *node
	nodes    []*node
	replicas []*daemon
	programs []program // with the environment for the bucket
	caches   []string  // directories
	store    *storeCounter
	recipe   []string // from the cookbook: it fills the bucket, starts a replica, and boots machines
}

// newFleet fills the bucket and starts the replicas.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	s := serveS3(t)
	dir := fill(t, t.TempDir(), map[string][]byte{"loader": content(fleetLoader), "image": content(fleetImage)})
	f := &fleet{hub: newNode(t), recipe: recipe(t, "Three replicas on a bucket", 3)}
	_, put, _ := strings.Cut(f.recipe[0], "\n") // after the variables, which s.haul has
	do(t, s.haul, wordsOf(t, put, "/srv/boot", dir)...)
	var port int
	f.store, port = countStore(t, f.hub, s.url)
	for i := range fleetReplicas {
		n := newNode(t)
		// All machines have one address: the kernel would refuse only one a second.
		n.sysctl(t, "ipv4/icmp_ratemask", "0")
		join(t, n, eth, f.hub, fmt.Sprint(eth, i), 1500)
		n.ip(t, address(eth, replicaAddress(i)+"/24"))
		f.hub.ip(t, fmt.Sprintf("addr add %s/24 brd + dev %s%d", hubAddress(i), eth, i))
		h := s.haul
		h.env = append(slices.Clone(h.env), fmt.Sprintf("AWS_ENDPOINT_URL=http://%s:%d", hubAddress(i), port))
		f.nodes, f.programs = append(f.nodes, n), append(f.programs, h)
		f.caches = append(f.caches, t.TempDir())
		f.replicas = append(f.replicas, nil)
		f.begin(t, i)
	}
	return f
}

// begin starts a replica, or restarts it. It finds its cache unchanged.
func (f *fleet) begin(t *testing.T, i int) {
	t.Helper()
	f.replicas[i] = f.nodes[i].start(t, f.programs[i], wordsOf(t, f.recipe[1], "/var/cache/haul", f.caches[i], "20GB", "64MiB")...)
	f.replicas[i].await(t, "tftp://")
}

// wordsOf returns the arguments of a haul command in the recipe, with some texts replaced: pairs
// of old and new.
func wordsOf(t *testing.T, script string, pairs ...string) []string {
	t.Helper()
	words := strings.Fields(strings.NewReplacer(append(pairs, "\\\n", "", "s3://images", "s3://bucket")...).Replace(script))
	if words[0] != "haul" {
		t.Fatalf("%q is no command of haul", script)
	}
	return words[1:]
}

// awaitLoad waits until a replica has finished a number of transfers.
func (f *fleet) awaitLoad(t *testing.T, i, transfers int, machines *daemon) {
	t.Helper()
	for began := time.Now(); strings.Count(f.replicas[i].said(1<<20), "\n") < transfers; {
		select {
		case <-machines.done:
			t.Fatalf("the machines were up before replica %d had %d transfers:\n%s", i, transfers, machines.said(20))
		case <-time.After(5 * time.Millisecond):
		}
		if time.Since(began) > scalePatience {
			t.Fatalf("replica %d: not %d transfers within %v:\n%s", i, transfers, scalePatience, f.replicas[i].said(5))
		}
	}
}

// With the cookbook's commands a thousand machines boot from three replicas. Some lose power, one
// replica is killed half-way and stays away, and another one is restarted: all machines boot,
// with the same bytes. Each replica fetches each byte of each file from the bucket once, and the
// restarted one does so in both runs together, since its cache has kept its content.
func TestNetworkFleet(t *testing.T) {
	f := newFleet(t)
	svg := filepath.Join(t.TempDir(), "up.svg")
	// With this seed the first machine that loses power is the 131st: a fetch with one reader
	// ends with it, and would start again.
	pairs := []string{"1000", fmt.Sprint(fleetMachines), "linear:30s", "linear:4s"}
	for i := range fleetReplicas {
		pairs = append(pairs, fmt.Sprint("192.0.2.", i+1), replicaAddress(i))
	}
	args := append(wordsOf(t, f.recipe[2], pairs...), "--json", "--seed", "1", "--lost", "2", "--away", "500ms", "--svg", svg)
	machines := f.hub.start(t, haul(t), args...)
	f.awaitLoad(t, 0, fleetLoaded, machines)
	if err := f.replicas[0].cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f.awaitLoad(t, 1, fleetLoaded, machines)
	if err := f.replicas[1].stop(); err != nil {
		t.Errorf("replica 1, told to end: %v", err)
	}
	f.begin(t, 1)
	select {
	case <-machines.done:
	case <-time.After(scalePatience):
		t.Fatalf("not up within %v", scalePatience)
	}
	var report struct {
		Up          int
		PowerCycles int `json:"power_cycles"`
		Retried     map[string]int
		LoaderSize  int `json:"loader_size"`
		ImageSize   int `json:"image_size"`
		Images      []struct{ Transfers, Failed int }
	}
	if err := json.Unmarshal([]byte(machines.said(1)), &report); err != nil {
		t.Fatalf("%v in %s", err, machines.said(5))
	}
	t.Logf("%s", machines.said(1))
	if machines.err != nil || report.Up != fleetMachines || report.LoaderSize != fleetLoader || report.ImageSize != fleetImage {
		t.Errorf("%v, %d of %d up", machines.err, report.Up, fleetMachines)
	}
	if len(report.Retried) == 0 || report.PowerCycles == 0 || report.Images[0].Failed == 0 || report.Images[2].Failed != 0 {
		t.Errorf("nothing was lost, or on the wrong replica: %+v", report)
	}
	got := f.store.counts()
	for i := range fleetReplicas {
		for path, size := range map[string]int64{"/bucket/boot/loader": fleetLoader, "/bucket/boot/image": fleetImage} {
			n := got[replicaAddress(i)+" "+path]
			if killed := i == 0; n > size || n < size && !killed {
				t.Errorf("replica %d has fetched %d bytes of %s, which has %d", i, n, path, size)
			}
		}
	}
	if len(got) > 2*fleetReplicas {
		t.Errorf("other files were fetched: %v", got)
	}
	t.Logf("fetched: %v", got)
}

// A storeCounter counts the bytes of files that a store sends, by "address path", and forwards
// all requests. It shows the test what replicas fetch.
type storeCounter struct {
	mu    sync.Mutex
	bytes map[string]int64 // mu
}

// countStore listens on a node and forwards requests to a store that this process can reach. It
// returns the port.
func countStore(t *testing.T, n *node, store string) (c *storeCounter, port int) {
	t.Helper()
	to, err := neturl.Parse(store)
	if err != nil {
		t.Fatal(err)
	}
	var l net.Listener
	n.do(t, func() { l, err = net.Listen("tcp4", ":0") })
	if err != nil {
		t.Fatal(err)
	}
	c = &storeCounter{bytes: map[string]int64{}}
	server := &http.Server{ReadHeaderTimeout: waitMost, Handler: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // signatures are for the requested address
		},
		ModifyResponse: func(r *http.Response) error {
			host, _, err := net.SplitHostPort(r.Request.RemoteAddr)
			if listing := r.Request.URL.Query().Has("list-type"); r.Request.Method == http.MethodGet && !listing {
				r.Body = &countedBody{ReadCloser: r.Body, of: c, key: host + " " + r.Request.URL.Path}
			}
			return err
		},
	}}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return c, l.Addr().(*net.TCPAddr).Port
}

// A countedBody counts the bytes read from an answer.
type countedBody struct {
	io.ReadCloser
	of  *storeCounter
	key string
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	b.of.bytes[b.key] += int64(n)
	return n, err
}

// counts returns how many bytes of each file each address has fetched.
func (c *storeCounter) counts() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.bytes)
}

// The counter of a store distinguishes replicas and files.
func TestNetworkFleetCountsStore(t *testing.T) {
	l := newLink(t)
	store := httptest.NewServer(http.FileServer(http.Dir(l.dir)))
	defer store.Close()
	c, port := countStore(t, l.server, store.URL)
	for range 2 {
		out, err := l.client.run(t, haul(t), "get", "--quiet", fmt.Sprintf("http://%s:%d/f", host, port), filepath.Join(t.TempDir(), "f"))
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if got := c.counts(); !maps.Equal(got, map[string]int64{guest + " /f": 2 * fileSize}) {
		t.Errorf("counted %v", got)
	}
}
