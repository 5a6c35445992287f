"""A share written in percent ends with the remedy."""


def test_attacker_accuracy_in_percent(refused, survey, tmp_path):
    data = survey(tmp_path / "survey.csv", rows=40)
    line = refused(
        "plan",
        data,
        "--secret",
        "beast",
        "--attacker-accuracy",
        "65",
        "--out",
        tmp_path / "plan.json",
    )
    assert "got 65; write 0.65 for 65 %" in line
