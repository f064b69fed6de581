package penalty_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/haul-project/haul/internal/penalty"
)

func Example() {
	var guard penalty.Guard
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	guesser := netip.MustParseAddr("203.0.113.7")

	v, err := guard.Admit(now, guesser)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		v.Fail(now, penalty.BadLogin)
	}
	v.End(now)

	for _, from := range []string{"203.0.113.7", "203.0.113.8"} {
		v, err := guard.Admit(now.Add(5*time.Second), netip.MustParseAddr(from))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(v.Guess(now.Add(5 * time.Second)))
	}
	// Output:
	// passwords refused: wrong passwords before (203.0.113.7/32), for another 10s
	// <nil>
}
