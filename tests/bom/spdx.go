package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"time"
)

// The parts of SPDX 2.3 that are used here (ISO/IEC 5962, "JSON schema").
type (
	spdxDocument struct {
		Version       string             `json:"spdxVersion"`
		License       string             `json:"dataLicense"`
		ID            string             `json:"SPDXID"`
		Name          string             `json:"name"`
		Namespace     string             `json:"documentNamespace"`
		Creation      spdxCreation       `json:"creationInfo"`
		Packages      []spdxPackage      `json:"packages"`
		Relationships []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		Name      string          `json:"name"`
		ID        string          `json:"SPDXID"`
		Version   string          `json:"versionInfo"`
		Download  string          `json:"downloadLocation"`
		Analyzed  bool            `json:"filesAnalyzed"`
		Concluded string          `json:"licenseConcluded"`
		Declared  string          `json:"licenseDeclared"`
		Copyright string          `json:"copyrightText"`
		Checksums []spdxChecksum  `json:"checksums,omitempty"`
		Refs      []spdxReference `json:"externalRefs,omitempty"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxReference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

const unknown = "NOASSERTION"

// spdxID is what an identifier may not hold.
var spdxID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// spdx is the bill of materials of a version; the same parts give the same bytes.
func spdx(version string, at time.Time, parts []part) ([]byte, error) {
	d := spdxDocument{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: "procinsh-" + version,
		Creation: spdxCreation{at.UTC().Format(time.RFC3339), []string{"Tool: procinsh-tests-bom"}},
		Packages: []spdxPackage{{Name: "procinsh", ID: "SPDXRef-procinsh", Version: version, Download: unknown,
			Concluded: unknown, Declared: "Apache-2.0", Copyright: unknown}},
		Relationships: []spdxRelationship{{"SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-procinsh"}},
	}
	sum := sha256.New()
	for _, p := range parts {
		id := "SPDXRef-" + spdxID.ReplaceAllString(p.url, "-")
		pack := spdxPackage{Name: p.name, ID: id, Version: p.version, Download: unknown, Concluded: unknown, Declared: p.license,
			Copyright: unknown, Refs: []spdxReference{{"PACKAGE-MANAGER", "purl", p.url}}}
		if p.source != "" {
			pack.Download = p.source
		}
		if p.sha512 != "" {
			pack.Checksums = []spdxChecksum{{"SHA512", p.sha512}}
		}
		d.Packages = append(d.Packages, pack)
		d.Relationships = append(d.Relationships, spdxRelationship{"SPDXRef-procinsh", "CONTAINS", id})
		sum.Write([]byte(p.url + "\n"))
	}
	d.Namespace = "https://spdx.org/spdxdocs/procinsh-" + version + "-" + hex.EncodeToString(sum.Sum(nil)[:16])
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err := enc.Encode(d)
	return b.Bytes(), err
}
