package load

import (
	"bytes"
	"hash/crc32"
	"io"
	"slices"
	"testing"
	"time"
)

// The test content is the same on every machine and in every version, because one version may
// compare files that another one has written.
func TestPattern(t *testing.T) {
	b := content(t, 3*PatternPeriod)
	if got := crc32.ChecksumIEEE(b); got != 0x40bc945 {
		t.Errorf("CRC-32 is %#x", got)
	}
	if !bytes.Equal(b[:PatternPeriod], b[PatternPeriod:2*PatternPeriod]) {
		t.Error("does not repeat after its period")
	}
	for _, off := range []int64{0, 1, 511, PatternPeriod - 1, PatternPeriod, 2*PatternPeriod - 100} {
		got := make([]byte, 1000)
		if _, err := Pattern(int64(len(b))).ReadAt(got, off); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if !bytes.Equal(got, b[off:off+1000]) || !bytes.Equal(patternAt(off, 1000), got) {
			t.Errorf("offset %d differs by the way it is read", off)
		}
	}
	for i := 2; i*i <= PatternPeriod; i++ {
		if PatternPeriod%i == 0 {
			t.Fatalf("the period is divided by %d", i)
		}
	}
}

func TestHistogram(t *testing.T) {
	var h histogram
	for i := 1; i <= 1000; i++ {
		h.add(time.Duration(i) * time.Microsecond)
	}
	got := h.latency()
	near := func(name string, got, want time.Duration) {
		if off := float64(got-want) / float64(want); off > 0.01 || off < -0.01 {
			t.Errorf("%s is %v, want %v within a hundredth", name, got, want)
		}
	}
	near("p50", got.P50, 500*time.Microsecond)
	near("p90", got.P90, 900*time.Microsecond)
	near("p99", got.P99, 990*time.Microsecond)
	if got.Max != time.Millisecond {
		t.Errorf("max is %v", got.Max)
	}
	h.add(time.Hour)
	if h.total != 1001 || h.latency().Max != time.Hour {
		t.Errorf("with an hour: %d, %v", h.total, h.latency())
	}
	if (&histogram{}).latency() != (Latency{}) {
		t.Error("an empty one is not zero")
	}
}

// Every value is counted in a bucket whose middle is near the value.
func TestBuckets(t *testing.T) {
	for shift := range 63 {
		for _, v := range []uint64{1 << shift, 1<<shift + 1<<shift/3, 1<<(shift+1) - 1} {
			b := bucketOf(v)
			if b < 0 || b >= buckets {
				t.Fatalf("%d: bucket %d of %d", v, b, buckets)
			}
			if off := float64(middle(b))/float64(v) - 1; off > 0.005 || off < -0.005 {
				t.Errorf("%d: the middle of its bucket is %d", v, middle(b))
			}
		}
	}
}

// The sum of the blocks is the same in any order of arrival. It differs if blocks are swapped or
// changed.
func TestReferences(t *testing.T) {
	r := newReferences()
	data := content(t, 4*512)
	sum := func(order ...int) (s uint64) {
		for at, i := range order {
			s += r.block(int64(at)*512, data[i*512:][:512])
		}
		return s
	}
	backwards := uint64(0)
	for i := range slices.Backward(make([]int, 4)) {
		backwards += r.block(int64(i)*512, data[i*512:][:512])
	}
	if sum(0, 1, 2, 3) != backwards {
		t.Error("the order counts")
	}
	if sum(0, 1, 2, 3) == sum(0, 2, 1, 3) || sum(0, 1, 2, 3) == sum(0, 1, 2) {
		t.Error("swapped or missing blocks go unseen")
	}
	of := func(sum uint64, size int64) digest { return digest{sum: sum, size: size} }
	k := reference{name: 1, block: 512}
	for i, tt := range []struct {
		d    digest
		want bool
	}{{of(1, 2), true}, {of(1, 2), true}, {of(1, 3), false}, {of(2, 2), false}} {
		if got := r.compare(k, tt.d); got != tt.want {
			t.Errorf("%d: %+v is as the first: %v", i, tt.d, got)
		}
	}
}

func TestSaturated(t *testing.T) {
	for want, reports := range map[bool][]Report{
		true: {
			{Duration: time.Second, Busy: 0.95, CPU: 900 * time.Millisecond, Loops: 1},
			{Duration: time.Second, Busy: 0.95, CPU: 1800 * time.Millisecond, Loops: 2},
			{Duration: time.Second, Busy: 0.95, Loops: 1},
		},
		false: {
			{},
			{Duration: time.Millisecond, Busy: 1, CPU: time.Millisecond, Loops: 1},
			{Duration: time.Second, Busy: 0.8, CPU: 800 * time.Millisecond, Loops: 1},
			{Duration: time.Second, Busy: 0.95, CPU: 300 * time.Millisecond, Loops: 1},
		},
	} {
		for _, r := range reports {
			if r.Saturated() != want {
				t.Errorf("%+v is saturated: %v", r, !want)
			}
		}
	}
}
