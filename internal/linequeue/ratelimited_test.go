package linequeue

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// However many events there are, each cause has one line at once, and then at most one in each
// interval. The numbers in the lines add up to the number of events.
func TestRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		q := NewLog(slog.New(slog.NewTextHandler(&out, nil)))
		l := RateLimited{Log: q, Message: "they come"}
		const each, span = 10 * time.Millisecond, time.Minute
		n := 0
		for range span / each {
			l.Count(slog.LevelWarn, "one", "192.0.2.1:1")
			l.Count(slog.LevelInfo, "other", "192.0.2.2:2", slog.String("more", "logged"))
			n += 2
			if synctest.Wait(); n == 2 && strings.Count(out.String(), " connections=1 ") != 2 {
				t.Errorf("the first of each is not logged at once: %q", out.String())
			}
			time.Sleep(each)
		}
		time.Sleep(2 * rateLimitEvery)
		l.Count(slog.LevelWarn, "one", "192.0.2.3:3")
		n++
		synctest.Wait()
		if !strings.Contains(out.String(), "level=WARN msg=\"they come\" cause=one connections=1 last=192.0.2.3:3\n") {
			t.Error("the first after a while is not logged at once")
		}
		l.Count(slog.LevelWarn, "one", "192.0.2.4:4")
		n++
		l.Flush()
		q.Close()
		lines, logged := strings.Split(strings.TrimSpace(out.String()), "\n"), 0
		for _, line := range lines {
			var k int
			_, after, _ := strings.Cut(line, "connections=")
			if _, err := fmt.Sscan(after, &k); err != nil {
				t.Error(err)
			}
			logged += k
		}
		if logged != n {
			t.Errorf("%d events are logged of %d", logged, n)
		}
		if most := 2*int(span/rateLimitEvery) + 5; len(lines) > most {
			t.Errorf("%d lines, want %d at most", len(lines), most)
		}
		if !strings.Contains(lines[0], "cause=one connections=1") || !strings.Contains(lines[1], "cause=other connections=1") || !strings.Contains(out.String(), " last=192.0.2.2:2 more=logged\n") {
			t.Errorf("it says\n%s", out.String())
		}
	})
}
