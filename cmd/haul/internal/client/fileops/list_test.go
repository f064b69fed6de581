package fileops

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
)

// connect returns the servers of a command that may ask no questions.
func connect(t *testing.T) *remote.Servers {
	t.Helper()
	s := remote.New(remote.Config{Batch: true, Stderr: io.Discard, Say: func(text string) { t.Error("it says", text) }})
	t.Cleanup(s.Close)
	return s
}

// ls -R ends on a server that invents directories or errors, and keeps only a bounded number of
// errors.
func TestListBounds(t *testing.T) {
	const dirs = maxListErrors + 500
	w := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			rw.WriteHeader(http.StatusForbidden)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		list := make([]string, dirs)
		for i := range list {
			list[i] = fmt.Sprintf(`{"name":"d%d","type":"directory"}`, i)
		}
		fmt.Fprintf(rw, "[%s]", strings.Join(list, ","))
	}))
	t.Cleanup(w.Close)
	at, err := remote.Parse(w.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	servers := connect(t)
	err = List(t.Context(), servers, []remote.Location{at}, ListConfig{Recursive: true}, io.Discard)
	if n := strings.Count(fmt.Sprint(err), "readdir"); n != maxListErrors || !errors.Is(err, failure.Remote) || !strings.Contains(err.Error(), "500 more errors are not shown") {
		t.Errorf("%d of them: %.100v", n, err)
	}
	c, err := servers.Connect(t.Context(), at, remote.Intent{})
	if err != nil {
		t.Fatal(err)
	}
	l := lister{walk: walk{dirs: maxListDirs - 1}}
	for _, dir := range []string{"a", "b", "c"} {
		l.directory(t.Context(), c, dir, 0)
	}
	if len(l.errs) != 2 || !strings.Contains(l.errs[0].Error(), "readdir") || !strings.Contains(l.errs[1].Error(), "no more are listed") {
		t.Errorf("%v", l.errs)
	}
}
