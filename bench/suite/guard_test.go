package suite

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Each load has a turn of haul and one of the other build, whose programs are next to its binary.
// Together they fit into the time of the guard.
func TestGuardLoads(t *testing.T) {
	bin := programs(t)
	haul := filepath.Join(bin, "haul")
	if err := os.Rename(haulBinary(t), haul); err != nil {
		t.Fatal(err)
	}
	s := Suite{Haul: haul, Before: haul, Peers: bin, Only: GuardPeers()}
	plan, err := s.Plan(Guard())
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, p := range plan.parts {
		if len(p.turns) != 2 || len(p.refused) > 0 || IsBefore(p.turns[0].Contender) || !IsBefore(p.turns[1].Contender) {
			t.Errorf("%s: the turns are %+v, and refused are %+v", p.Name, p.turns, p.refused)
		}
		if names[p.Name] || p.Title == "" || p.Guess == 0 {
			t.Errorf("%s is there twice, or not complete", p.Name)
		}
		names[p.Name] = true
	}
	if len(names) < 12 || plan.Time > 7*time.Minute {
		t.Errorf("%d loads are guessed to take %v", len(names), plan.Time)
	}

	// Without the other build's programs, only its binary takes part.
	alone := filepath.Join(t.TempDir(), "haul")
	if err := os.Link(haul, alone); err != nil {
		t.Fatal(err)
	}
	s.Before = alone
	if plan, err = s.Plan(Guard()); err != nil {
		t.Fatal(err)
	}
	missed := 0
	for _, a := range plan.absent {
		if a.Name == asBefore(haulPair)+" (SFTP)" || a.Name == beforeName+" (TCP)" {
			missed++
		}
	}
	if missed != 2 {
		t.Errorf("absent are %+v", plan.absent)
	}
}
