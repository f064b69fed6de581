//go:build !linux

package site

import "net/netip"

// NeighboursSupported says whether [KernelNeighbours] can read this system's neighbour table.
const NeighboursSupported = false

func readNeighbours(int) (map[netip.Addr]MAC, error) { return nil, errNeighbours }
