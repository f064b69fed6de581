package status

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"
)

const (
	// usualTransfers is how many transfers /api/v1/transfers returns if the request has no ?limit=.
	usualTransfers = 1000

	// eventEvery is the time between two events that are sent to a browser.
	eventEvery = time.Second
)

// routes answers requests. Methods other than GET and HEAD get 405, other paths 404.
func (s *Server) routes(b *Board, c Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", b.servePage)
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) { s.serveEvents(b, c.Login, w, r) })
	mux.HandleFunc("GET /api/v1/info", func(w http.ResponseWriter, _ *http.Request) { answer(w, b.info(b.snapshot(time.Now()))) })
	mux.HandleFunc("GET /api/v1/transfers", b.serveTransfers)
	mux.HandleFunc("GET /api/v1/series", func(w http.ResponseWriter, _ *http.Request) { answer(w, b.hour()) })
	mux.HandleFunc("GET /api/v1/failures", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, Failures{Time: time.Now().UTC(), Failures: b.failures.list()})
	})
	mux.HandleFunc("GET /api/v1/machines", func(w http.ResponseWriter, _ *http.Request) {
		now := b.snapshot(time.Now())
		answer(w, Machines{Time: now.at.UTC(), Stages: now.stages, Machines: append([]Machine{}, now.machines...)})
	})
	mux.Handle("GET /metrics", b.Transfers.Handler())
	if c.Profiles {
		s.addProfiles(mux)
	}
	return mux
}

// addProfiles adds the paths for profiles of the process. Their answers have a longer time limit,
// because the client chooses how long a profile takes.
func (s *Server) addProfiles(mux *http.ServeMux) {
	for path, serve := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		mux.HandleFunc("GET /debug/pprof/"+path, func(w http.ResponseWriter, r *http.Request) {
			if n, err := strconv.ParseFloat(r.FormValue("seconds"), 64); err == nil && n > s.limits.profile.Seconds() {
				http.Error(w, "A profile takes "+s.limits.profile.String()+" at most.", http.StatusBadRequest)
				return
			}
			control := http.NewResponseController(w)
			// Clear the read deadline, which would cancel the request's context.
			_ = control.SetReadDeadline(time.Time{})
			_ = control.SetWriteDeadline(time.Now().Add(s.limits.profile + s.limits.answer))
			serve(w, r)
		})
	}
}

// answer writes a value as JSON.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // an error would mean that the client has left
}

// serveTransfers answers with the fastest transfers under way.
func (b *Board) serveTransfers(w http.ResponseWriter, r *http.Request) {
	limit := usualTransfers
	if text := r.FormValue("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 0 {
			http.Error(w, "limit is a number of transfers.", http.StatusBadRequest)
			return
		}
	}
	now := b.snapshot(time.Now())
	answer(w, Transfers{Time: now.at.UTC(), Total: len(now.transfers), Transfers: now.transfers[:min(limit, len(now.transfers))]})
}

// serveEvents sends the changes of the page once a second, until the client leaves or the server
// shuts down.
func (s *Server) serveEvents(b *Board, l *Login, w http.ResponseWriter, r *http.Request) {
	defer s.watchers.Add(-1)
	if s.watchers.Add(1) > int64(s.limits.watchers) {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "As many as can are watching.", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	if r.Method == http.MethodHead {
		return
	}
	_ = control.SetReadDeadline(time.Time{}) // clear the read deadline, which would cancel the request's context
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	var known sections
	for l.holds(r) {
		now := b.snapshot(time.Now()).page(b).sections
		_ = control.SetWriteDeadline(time.Now().Add(s.limits.event))
		if _, err := w.Write(now.event(known)); err != nil {
			return
		}
		if control.Flush() != nil {
			return
		}
		known = now
		select {
		case <-r.Context().Done():
			return
		case <-s.over:
			return
		case <-tick.C:
		}
	}
}
