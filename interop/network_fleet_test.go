//go:build linux

package interop

import (
	"encoding/json"
	"fmt"
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

	// fleetLoaded is how many transfers a replica has ended when it is killed or
	// restarted, of some two for each of a third of the machines.
	fleetLoaded = 200
)

// A fleetSource is where the replicas of a fleet have their files from.
type fleetSource struct {
	name string

	// serve returns the source as "haul serve" names it, and further arguments, for the
	// replica with a number. dir has the files, and hub is the node that all replicas
	// reach, at hubAddress.
	serve func(t *testing.T, hub *node, dir string, replica int) []string

	// fetched returns how often each replica has fetched each file, by "address path";
	// nil if it has no store to fetch from.
	fetched func() map[string]int
}

// fleetSources are those with which TestNetworkFleet runs.
func fleetSources() []fleetSource {
	return []fleetSource{
		{name: "directory", serve: func(_ *testing.T, _ *node, dir string, _ int) []string { return []string{dir} }},
	}
}

func replicaAddress(i int) string { return fmt.Sprintf("10.70.%d.1", i) }

func hubAddress(i int) string { return fmt.Sprintf("10.70.%d.2", i) }

// A fleet is some replicas of haul, each on a node of its own, and a node between them
// from which machines boot.
type fleet struct {
	hub      *node
	nodes    []*node
	replicas []*daemon
	args     [][]string
}

// newFleet starts the replicas.
func newFleet(t *testing.T, source fleetSource) *fleet {
	t.Helper()
	f := &fleet{hub: newNode(t)}
	dir := fill(t, t.TempDir(), map[string][]byte{"loader": content(fleetLoader), "image": content(fleetImage)})
	for i := range fleetReplicas {
		n := newNode(t)
		n.sysctl(t, "ipv4/icmp_ratemask", "0") // all machines have one address: the kernel would refuse one a second only
		join(t, n, eth, f.hub, fmt.Sprint(eth, i), 1500)
		n.ip(t, address(eth, replicaAddress(i)+"/24"))
		f.hub.ip(t, fmt.Sprintf("addr add %s/24 brd + dev %s%d", hubAddress(i), eth, i))
		f.nodes = append(f.nodes, n)
		f.args = append(f.args, append(source.serve(t, f.hub, dir, i), "--tftp", ":69", "--http", ":80", "--single-port", "--rate", "-1"))
		f.replicas = append(f.replicas, nil)
		f.begin(t, i)
	}
	return f
}

// begin starts a replica, again if it has ended.
func (f *fleet) begin(t *testing.T, i int) {
	t.Helper()
	f.replicas[i] = f.nodes[i].serve(t, f.args[i][0], f.args[i][1:]...)
}

// awaitLoad returns when a replica has ended so many transfers.
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

// A thousand machines boot from three replicas, some lose power, one replica is killed
// half-way and stays away, and another one is restarted: all machines come up, with the
// same bytes. Where there is a store, each replica fetches each file once.
func TestNetworkFleet(t *testing.T) {
	for _, source := range fleetSources() {
		t.Run(source.name, func(t *testing.T) { bootFleet(t, source) })
	}
}

func bootFleet(t *testing.T, source fleetSource) {
	f := newFleet(t, source)
	svg := filepath.Join(t.TempDir(), "up.svg")
	args := []string{"bench", "boot", "--json", "-n", fmt.Sprint(fleetMachines), "--arrival", "linear:4s", "--lost", "2", "--away", "500ms", "--svg", svg}
	for i := range fleetReplicas {
		args = append(args, "--loader", "tftp://"+replicaAddress(i)+"/loader", "--image", "http://"+replicaAddress(i)+"/image")
	}
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
	if source.fetched == nil {
		return
	}
	for object, times := range source.fetched() {
		if times > 1 { // replica 1 was restarted, and its cache has kept what it had
			t.Errorf("%s was fetched %d times", object, times)
		}
	}
}

// A storeCounter counts the requests for files to a store, by "address path", and passes
// all requests on. It is how a test sees what replicas fetch.
type storeCounter struct {
	mu    sync.Mutex
	count map[string]int // mu
}

// countStore listens on a node and passes requests on to a store, which this process
// reaches. It returns the port.
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
	c = &storeCounter{count: map[string]int{}}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // signatures are for the address that was asked
	}}
	server := &http.Server{ReadHeaderTimeout: waitMost, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil && r.Method == http.MethodGet {
			c.mu.Lock()
			c.count[host+" "+r.URL.Path]++
			c.mu.Unlock()
		}
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return c, l.Addr().(*net.TCPAddr).Port
}

// counts returns how often each file was fetched by each address.
func (c *storeCounter) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.count)
}

// The counter of a store tells replicas and files from each other.
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
	if got := c.counts(); !slices.Equal(slices.Sorted(maps.Keys(got)), []string{guest + " /f"}) || got[guest+" /f"] != 2 {
		t.Errorf("counted %v", got)
	}
}
