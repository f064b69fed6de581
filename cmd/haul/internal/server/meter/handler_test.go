package meter

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scrape sends a request to a handler and returns the answer.
func scrape(t *testing.T, h http.Handler, method string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	q := httptest.NewRequestWithContext(t.Context(), method, "/metrics", nil)
	q.Header = header
	h.ServeHTTP(w, q)
	return w
}

// The answer to a scrape can be parsed, and has all the families.
func TestScrape(t *testing.T) {
	r := New(Config{Version: "v1.2.3", Protocols: []Protocol{TFTP}})
	w := scrape(t, r.Handler(), http.MethodGet, nil)
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Fatalf("status %d, %v", w.Code, w.Header())
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(`haul_transfers_total haul_transfers_live haul_bytes_total haul_packets_sent_total
		haul_resends_total haul_duplicates_total haul_timeouts_total haul_round_trip_seconds
		haul_transfer_duration_seconds haul_transfer_size_bytes haul_refused_total
		haul_transfers_unlisted_total haul_build_info go_goroutines go_memstats_heap_alloc_bytes`)
	if runtime.GOOS == "linux" {
		want = append(want, "process_resident_memory_bytes", "process_open_fds", "process_max_fds", "process_start_time_seconds")
	}
	for _, name := range want {
		if families[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	labels := map[string]string{}
	for _, l := range families["haul_build_info"].GetMetric()[0].GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	if labels["version"] != "v1.2.3" || labels["goversion"] != runtime.Version() {
		t.Errorf("the build is %v", labels)
	}
}

// Strange and hostile Accept headers get an answer, too.
func TestScrapeFormats(t *testing.T) {
	h := New(Config{}).Handler()
	for _, accept := range []string{
		"", "*/*", "application/json", ";;;,,,q=", strings.Repeat("a/b;q=0.1,", 400), "text/plain;version=99;q=\xff",
		string(expfmt.NewFormat(expfmt.TypeProtoDelim)), string(expfmt.NewFormat(expfmt.TypeOpenMetrics)),
	} {
		w := scrape(t, h, http.MethodGet, http.Header{"Accept": {accept}, "Accept-Encoding": {"gzip, br;q=x"}})
		if w.Code != http.StatusOK || w.Body.Len() == 0 || w.Header().Get("Content-Encoding") != "" {
			t.Errorf("Accept %.40q: status %d, %d bytes, %v", accept, w.Code, w.Body.Len(), w.Header())
		}
	}
}

func TestScrapeOfNil(t *testing.T) {
	var r *Registry
	if w := scrape(t, r.Handler(), http.MethodGet, nil); w.Code != http.StatusNotFound {
		t.Errorf("status %d, want 404", w.Code)
	}
}

// Simultaneous scrapes beyond maxScrapes are refused.
func TestTooManyScrapes(t *testing.T) {
	r := New(Config{})
	begun, release := make(chan struct{}, maxScrapes), make(chan struct{})
	r.Gauge("slow", "Waits.", func() float64 {
		begun <- struct{}{}
		<-release
		return 0
	})
	h := r.Handler()
	var scrapes sync.WaitGroup
	for range maxScrapes {
		scrapes.Go(func() {
			if w := scrape(t, h, http.MethodGet, nil); w.Code != http.StatusOK {
				t.Errorf("status %d, want 200", w.Code)
			}
		})
	}
	for range maxScrapes {
		<-begun
	}
	if w := scrape(t, h, http.MethodGet, nil); w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d, want 503", w.Code)
	}
	close(release)
	scrapes.Wait()
}
