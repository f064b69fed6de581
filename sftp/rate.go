package sftp

import (
	"time"

	"github.com/haul-project/haul/internal/rate"
)

// minThrottledRead is the least that a READ is cut to so that little of the rate
// goes at once, in bytes.
const minThrottledRead = 4 << 10

// maxRead is what a READ may return at most, in bytes: less where the rate is
// low, so that the client sees it flow.
func (c *serverConn) maxRead() int64 {
	least := int64(0)
	for _, t := range [...]*rate.Pair{&c.server.rate, c.throttle} {
		if r := t.Sent.Rate(); r > 0 && (least == 0 || r < least) {
			least = r
		}
	}
	if least == 0 {
		return maxData
	}
	return min(max(least/8, minThrottledRead), maxData)
}

// sentWait counts bytes of files that go to the client, and returns how long
// they have to wait.
func (c *serverConn) sentWait(n int) time.Duration {
	now := time.Now()
	return max(c.server.rate.Sent.Take(now, n), c.throttle.Sent.Take(now, n))
}

// receivedWait is the same for those that have come.
func (c *serverConn) receivedWait(n int) time.Duration {
	now := time.Now()
	return max(c.server.rate.Received.Take(now, n), c.throttle.Received.Take(now, n))
}
