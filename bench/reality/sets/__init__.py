# SPDX-License-Identifier: Apache-2.0
"""One module for each source of measured runs."""
