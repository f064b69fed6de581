//go:build unix

package hooks

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/activity"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/system/fdline"
)

// A killed helper is started again and counted, and its running program is killed with it. The
// event of that program is counted as lost; the waiting events are run.
func TestHelperKilled(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := newRig(t, 0, `if [ "$HAUL_FILE" = hang ]; then echo $PPID >"$1/helper.new"; echo $$ >"$1/self"; mv "$1/helper.new" "$1/helper"; exec sleep 1000; fi; : >"$1/done-$HAUL_FILE"`)
	r.Send(activity.Event{Event: activity.Uploaded, File: "hang"})
	eventually(t, "it hangs", func() bool { return r.read("helper") != "" })
	pid, err := strconv.Atoi(strings.TrimSpace(r.read("helper")))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		r.Send(activity.Event{Event: activity.Uploaded, File: strconv.Itoa(i)})
	}
	eventually(t, "a new helper", func() bool { return r.restarts.Load() == 1 })
	eventually(t, "all are run or lost", func() bool { return r.results[0].Load()+r.lost.Load() == 21 })
	if lost := r.lost.Load(); lost < 1 || lost > maxRunning {
		t.Errorf("%d are lost", lost) // the event whose program ran, and events that were just sent to the helper
	}
	if runtime.GOOS == "linux" {
		eventually(t, "the program has ended", func() bool { return !r.alive("self") })
	}
}

// signalTo sends a signal to the process whose ID is in a file.
func (r *rig) signalTo(name string, s syscall.Signal) {
	r.t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(r.read(name)))
	if err == nil {
		err = syscall.Kill(pid, s)
	}
	if err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
}

// A helper that was stopped and does not answer is killed and restarted. The event is counted as
// lost.
func TestHelperStopped(t *testing.T) {
	t.Parallel() // it waits most of the time
	if testing.Short() {
		t.Skip("it takes spareTime")
	}
	r := newRig(t, time.Second, `echo $PPID >"$1/helper"`)
	r.Send(activity.Event{Event: activity.Uploaded})
	eventually(t, "a run", func() bool { return r.ended() == 1 })
	r.signalTo("helper", syscall.SIGSTOP)
	for range maxRunning {
		r.Send(activity.Event{Event: activity.Uploaded})
	}
	eventually(t, "they are lost", func() bool { return r.lost.Load() == maxRunning })
	eventually(t, "a new helper", func() bool { return r.restarts.Load() == 1 })
	for range 2 * maxRunning {
		r.Send(activity.Event{Event: activity.Uploaded})
	}
	eventually(t, "runs", func() bool { return r.ended() == 1+2*maxRunning })
}

// ended returns how many runs have a result.
func (r *rig) ended() (n int64) {
	for i := range r.results {
		n += r.results[i].Load()
	}
	return n
}

// The death of the supervisor is logged once, and a metric shows it. The helper runs hooks until it
// dies too. Later events are counted as lost.
func TestSupervisorKilled(t *testing.T) {
	t.Parallel() // it waits most of the time
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	r := newRig(t, 0, `read -r _ _ _ supervisor _ </proc/$PPID/stat; echo $PPID >"$1/helper"; echo $supervisor >"$1/supervisor"`)
	counts := meter.New(meter.Config{})
	r.RegisterMetrics(counts)
	up := func() string {
		answer := httptest.NewRecorder()
		counts.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		_, value, _ := strings.Cut(answer.Body.String(), "\nhaul_hook_supervisor_up ")
		value, _, _ = strings.Cut(value, "\n")
		return value
	}
	r.Send(activity.Event{Event: activity.Uploaded})
	r.await("done", 1)
	if got := up(); got != "1" {
		t.Errorf("up is %q", got)
	}
	r.signalTo("supervisor", syscall.SIGKILL)
	eventually(t, "the metric shows it", func() bool { return up() == "0" })
	r.Send(activity.Event{Event: activity.Uploaded})
	r.await("done", 2)
	r.signalTo("helper", syscall.SIGKILL)
	const more = 3 * maxRunning
	for range more {
		r.Send(activity.Event{Event: activity.Uploaded})
	}
	eventually(t, "all are run or lost", func() bool { return r.results[0].Load()+r.lost.Load() == 2+more })
	if r.restarts.Load() != 0 || r.lost.Load() < more-maxRunning {
		t.Errorf("%d restarts, %d are lost", r.restarts.Load(), r.lost.Load())
	}
	eventually(t, "logged", func() bool { return strings.Contains(r.log.String(), "the helper is gone") })
	if said := r.log.String(); strings.Count(said, "level=ERROR") != 1 || !strings.Contains(said, "the supervisor has died") {
		t.Error(said)
	}
}

// If not all lines of a helper arrive, because the server has too many open files, the server drops
// the helper. The next helper runs hooks.
func TestLinesMissing(t *testing.T) {
	t.Parallel() // it waits most of the time
	ours, file, err := fdline.Pair()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := fdline.Of(file)
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	var log logBuffer
	q := newQueue(Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	q.helper = &helper{line: ours}
	go q.follow()
	defer q.Close()
	ends := make([]*os.File, maxRunning)
	for i := range ends {
		near, far, err := fdline.Pair()
		if err != nil {
			t.Fatal(err)
		}
		defer near.Close()
		defer far.Close()
		ends[i] = far
	}
	for _, files := range [][]*os.File{ends[1:], ends[1:], ends} {
		if err := fdline.Send(theirs, "helper\n", files); err != nil {
			t.Fatal(err)
		}
	}
	for i := range q.lines {
		c := <-q.lines[i]
		if c.number != 3 {
			t.Errorf("line %d leads to helper %d", i, c.number)
		}
		_ = c.Close()
	}
	_ = theirs.Close()
	<-q.gone
	// A separate goroutine writes the log. Its last line is about the supervisor.
	eventually(t, "the log is whole", func() bool { return strings.Contains(log.String(), "the supervisor has died") })
	if said := log.String(); strings.Count(said, "cannot be used") != 1 || !strings.Contains(said, "3 of 4 have arrived") {
		t.Error(said)
	}
}
