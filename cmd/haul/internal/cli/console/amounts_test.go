package console

import "testing"

func TestHumanSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 1023: "1023", 1024: "1.0K", 1025: "1.1K", 1536: "1.5K", 10 << 10: "10K", 10<<10 + 1: "11K", 1 << 20: "1.0M",
		1<<20 - 1: "1.0M", 1<<20 + 1: "1.1M", 1023 << 20: "1023M", 1<<30 - 1: "1.0G", 1 << 60: "1.0E", 1<<63 - 1: "8.0E",
	} {
		if got := HumanSize(n); got != want {
			t.Errorf("HumanSize(%d) is %s, want %s", n, got, want)
		}
	}
}
