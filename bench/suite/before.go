package suite

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/suite/record"
)

// beforeName replaces "haul" in the name of a contender that is another build of haul.
const beforeName = "haul before"

// IsBefore reports whether a contender is another build of haul: see Suite.Before.
func IsBefore(c record.Contender) bool { return strings.HasPrefix(c.Name, beforeName) }

// asBefore converts the name of a contender with haul to its name for the other build, and asHaul
// converts it back.
func asBefore(name string) string { return strings.ReplaceAll(name, "haul", beforeName) }
func asHaul(name string) string   { return strings.ReplaceAll(name, beforeName, "haul") }

// haulPair is the SFTP pair with haul on both sides.
const haulPair = "haul to haul"

// addBefore adds the contenders of the other build, Suite.Before, to the set. The other build's
// programs for SFTP and TCP are in the directory of its binary, which contains no peers.
func (s *Suite) addBefore(set *peer.Set) error {
	servers, err := peer.Haul(beforeName, s.Before)
	if err != nil {
		return fmt.Errorf("--before: %w", err)
	}
	set.Servers = append(set.Servers, servers...)
	dir := filepath.Dir(s.Before)
	pairs, absent := peer.Pairs(dir, s.Before)
	streams := peer.Streams(dir, s.Before)
	for _, p := range pairs {
		if p.Name == haulPair {
			p.Name = asBefore(p.Name)
			set.Pairs = append(set.Pairs, p)
		}
	}
	for _, p := range streams.Streams {
		if family(p.Name) == "haul" {
			p.Name = asBefore(p.Name)
			set.Streams = append(set.Streams, p)
		}
	}
	for _, a := range slices.Concat(absent, streams.Absent) {
		if a.Name == haulPair+peer.OfSFTP || family(a.Name) == "haul" && protocolOf(a) == record.TCP {
			a.Name = asBefore(a.Name)
			set.Absent = append(set.Absent, a)
		}
	}
	return nil
}
