package sftp

import (
	"time"

	"github.com/haul-project/haul/internal/rate"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// The throttles hold the two rate limits that apply to a connection: the limit of the whole server,
// and the limit of the account.
type throttles [2]*rate.Pair

const (
	// maxData is the largest number of bytes that a READ returns, and the largest WRITE that
	// limits@openssh.com announces.
	maxData = wire.CommonData

	// minThrottledRead is the smallest size to which a rate limit reduces a READ, in bytes.
	minThrottledRead = 4 << 10
)

// maxRead returns the largest number of bytes that a READ may return. It is smaller at a low rate,
// so that the client sees steady progress.
func (t *throttles) maxRead() int64 {
	least := int64(0)
	for _, limit := range t {
		if r := limit.Sent.Rate(); r > 0 && (least == 0 || r < least) {
			least = r
		}
	}
	if least == 0 {
		return maxData
	}
	return min(max(least/8, minThrottledRead), maxData)
}

// sent counts n bytes of file content that are sent to the client, and returns how long to wait
// afterwards.
func (t *throttles) sent(n int) time.Duration {
	now := time.Now()
	return max(t[0].Sent.Take(now, n), t[1].Sent.Take(now, n))
}

// received counts n bytes of file content that the client has sent, and returns how long to wait
// afterwards.
func (t *throttles) received(n int) time.Duration {
	now := time.Now()
	return max(t[0].Received.Take(now, n), t[1].Received.Take(now, n))
}
